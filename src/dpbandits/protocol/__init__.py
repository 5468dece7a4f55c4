"""The algorithm as pure functions on frozen values: the learner, the messages, and each party's computation.

Simulations and the service run this same code; they differ only in how messages travel.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
