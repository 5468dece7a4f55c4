"""The coordinator of a study: its state machine, what each party may ask of it, and its HTTP application."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
