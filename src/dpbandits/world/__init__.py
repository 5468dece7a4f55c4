"""The simulated world, hidden from the learner: θ*, the population, rewards, data sets and regret."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
