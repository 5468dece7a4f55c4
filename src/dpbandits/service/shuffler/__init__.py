"""The shuffler of the shuffle model: a state machine with its own store, and its HTTP application."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
