"""Privacy audits: a distinguishing game against the running mechanisms, and what its results prove."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
