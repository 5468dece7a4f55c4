"""The built-in trust models, with one file each: none, central, local and shuffle."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
