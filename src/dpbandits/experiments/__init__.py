"""Reproduction of the paper: one file per figure or table, and the code that runs and reports them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
