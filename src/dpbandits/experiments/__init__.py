"""One file for each figure or table of the paper, and what turns them into runs, files and a report."""

from dpbandits.experiments import (
    figure_2a,
    figure_2b,
    figure_2c,
    figure_3,
    ranking,
    regret_against_population,
    table_1,
    table_2,
    table_3,
)
from dpbandits.experiments.experiment import FULL_RUNS, QUICK_RUNS, Experiment, Results, Scale, Work
from dpbandits.experiments.findings import Check, Curve, Findings, Panel, Table
from dpbandits.experiments.running import Item, examined, named, run_cached, tasks_of

_MODULES = (
    figure_2a,
    figure_2b,
    figure_2c,
    figure_3,
    table_1,
    table_2,
    table_3,
    regret_against_population,
    ranking,
)
EXPERIMENTS: tuple[Experiment, ...] = tuple(module.EXPERIMENT for module in _MODULES)

__all__ = [
    "EXPERIMENTS",
    "FULL_RUNS",
    "QUICK_RUNS",
    "Check",
    "Curve",
    "Experiment",
    "Findings",
    "Item",
    "Panel",
    "Results",
    "Scale",
    "Table",
    "Work",
    "examined",
    "named",
    "run_cached",
    "tasks_of",
]
