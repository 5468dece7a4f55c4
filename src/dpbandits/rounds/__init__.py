"""Runs a study on a store: attempts, participation, reports and releases, for any carrier of messages."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
