"""All experiments, in the order in which `dpbandits reproduce` runs them."""

from dpbandits.experiments import (
    _figure_2a,
    _figure_2b,
    _figure_2c,
    _figure_3,
    _ranking,
    _regret_against_population,
    _table_1,
    _table_2,
    _table_3,
)
from dpbandits.experiments._experiment import Experiment

_MODULES = (
    _figure_2a,
    _figure_2b,
    _figure_2c,
    _figure_3,
    _table_1,
    _table_2,
    _table_3,
    _regret_against_population,
    _ranking,
)
EXPERIMENTS: tuple[Experiment, ...] = tuple(module.EXPERIMENT for module in _MODULES)
