"""Tail bounds: radii that a random error exceeds with at most a given probability (docs/theory.md)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
