"""Attempts, participation, reports and releases of a study over a store, for any carrier of messages."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
