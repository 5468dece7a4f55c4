"""What the learner never sees: θ*, the population, its rewards, data sets, and so the regret."""

from dpbandits.world.clients import Clients
from dpbandits.world.dataset import SEMI_REAL, USERS, Dataset
from dpbandits.world.datasets import DATA_SETS, load
from dpbandits.world.instance import Instance
from dpbandits.world.population import FittedPopulation, Population, ResampledPopulation
from dpbandits.world.rewards import REWARD_LAWS

__all__ = [
    "DATA_SETS",
    "REWARD_LAWS",
    "SEMI_REAL",
    "USERS",
    "Clients",
    "Dataset",
    "FittedPopulation",
    "Instance",
    "Population",
    "ResampledPopulation",
    "load",
]
