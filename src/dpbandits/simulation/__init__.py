"""Drives the protocol in memory: single runs, their traces, jobs that are kept, and sweeps over settings."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
