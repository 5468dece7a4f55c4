from ._clients import Clients as Clients
from ._dataset import SEMI_REAL as SEMI_REAL, USERS as USERS, Dataset as Dataset
from ._datasets import DATA_SETS as DATA_SETS, load as load
from ._instance import Instance as Instance
from ._population import (
    FittedPopulation as FittedPopulation,
    Population as Population,
    ResampledPopulation as ResampledPopulation,
)
from ._rewards import REWARD_LAWS as REWARD_LAWS
