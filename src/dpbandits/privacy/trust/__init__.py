"""One file per trust model: none, central, local, shuffle. Each has its mechanisms R, S and A."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
