"""Code that the parties share: HTTP endpoints and calls, writer thread, TLS, logs, metrics, rate limits."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
