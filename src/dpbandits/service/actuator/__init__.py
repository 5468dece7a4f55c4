"""The actuator: plays the actions that the coordinator asks for and reports how many rounds it has played."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
