"""What the parties send each other: JSON messages, sealed reports, terms, signatures and tokens."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
