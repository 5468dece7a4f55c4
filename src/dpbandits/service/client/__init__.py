"""The client SDK: check a study's terms, enrol once, join a cohort, play its plan, and send one report."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
