"""Assignments: the rules that say which actions a client of a phase reports on. One file per rule."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
