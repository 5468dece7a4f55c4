"""What the learner never sees: θ*, the population, its rewards, data sets, and so the regret."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
