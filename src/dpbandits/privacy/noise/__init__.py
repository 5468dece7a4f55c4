"""Noise: its sources, the exact samplers, and the integer noise distributions that mechanisms use."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
