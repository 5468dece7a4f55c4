"""What the learner never sees: θ*, the population, its rewards, and so the regret."""

from dpbandits.world.instance import Instance
from dpbandits.world.population import Population
from dpbandits.world.rewards import REWARD_LAWS

__all__ = ["REWARD_LAWS", "Instance", "Population"]
