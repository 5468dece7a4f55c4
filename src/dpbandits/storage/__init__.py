"""Durable storage: the journal of plans and releases, the participation ledger, and the current reports."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
