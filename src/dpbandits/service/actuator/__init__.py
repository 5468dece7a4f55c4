"""The actuator: it plays the actions that the coordinator requests and reports how many rounds it played."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
