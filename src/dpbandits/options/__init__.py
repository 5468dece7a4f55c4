"""Options in the user's words: how a table is encoded, and the way back to the user's units."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
