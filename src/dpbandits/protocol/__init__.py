"""The algorithm, once: pure functions on frozen values, for every carrier."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
