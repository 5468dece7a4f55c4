"""The coordinator of a deployed study: its context, what each role may request of it, and its HTTP API."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
