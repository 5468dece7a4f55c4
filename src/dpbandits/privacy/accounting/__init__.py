"""Privacy accounting: bounds on δ(ε) of every event, and the least noise for a given (ε, δ)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
