"""What is spent: δ(ε) of every event, from above and below, and the least noise for a stated (ε, δ)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
