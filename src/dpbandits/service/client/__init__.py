"""The client SDK: check the terms of a study, enrol once, join a cohort, record rewards, send one report."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
