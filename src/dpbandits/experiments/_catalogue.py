"""All experiments, in the order in which `dpbandits reproduce` runs them."""

from dpbandits.experiments._figure_2a import EXPERIMENT as FIGURE_2A
from dpbandits.experiments._figure_2b import EXPERIMENT as FIGURE_2B
from dpbandits.experiments._figure_2c import EXPERIMENT as FIGURE_2C
from dpbandits.experiments._figure_3 import EXPERIMENT as FIGURE_3
from dpbandits.experiments._ranking import EXPERIMENT as RANKING
from dpbandits.experiments._regret_against_population import EXPERIMENT as POPULATION
from dpbandits.experiments._table_1 import EXPERIMENT as TABLE_1
from dpbandits.experiments._table_2 import EXPERIMENT as TABLE_2
from dpbandits.experiments._table_3 import EXPERIMENT as TABLE_3

EXPERIMENTS = (FIGURE_2A, FIGURE_2B, FIGURE_2C, FIGURE_3, TABLE_1, TABLE_2, TABLE_3, POPULATION, RANKING)
