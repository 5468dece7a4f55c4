"""Baselines for comparison that are not phased elimination: LinUCB without privacy, and private LinUCB."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
