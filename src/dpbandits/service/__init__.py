"""The deployed system: coordinator, shuffler, clients and actuator over a network."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
