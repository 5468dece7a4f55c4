"""One file for each figure or table of the paper, and what turns them into runs, files and a report."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
