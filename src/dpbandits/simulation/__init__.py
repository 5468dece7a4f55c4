"""Simulations of the protocol in memory: single runs, their traces, and sweeps over settings and seeds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
