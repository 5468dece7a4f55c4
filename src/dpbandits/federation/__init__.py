"""Federations of sites that host many users each: a site, the driver of a study, and Flower as carrier."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
