"""Flower as the carrier of a federation: its processes and their apps. Needs the extra `flower`."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
