"""Study files of the coordinator and configuration files of the shuffler (TOML)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
