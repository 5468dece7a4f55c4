"""What is not phased elimination, for comparison: LinUCB, which protects nobody, and its private kin."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
