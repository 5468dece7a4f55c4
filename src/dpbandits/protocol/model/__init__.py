"""Reward models: how the mean reward of an action depends on its features. One file per model."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
