"""Runs of the protocol in memory: single runs and their traces, settings, sweeps, and resumable jobs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
