"""Collects the tasks of experiments, and evaluates the results of these tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpbandits._checks import one_of
from dpbandits.experiments._experiment import Experiment, Results, Scale, Work
from dpbandits.experiments._findings import Findings
from dpbandits.simulation import Job

Task = tuple[Job[Any], int]


@dataclass(frozen=True, kw_only=True)
class Item:
    """An experiment that was run.

    Attributes:
        experiment: The experiment.
        scale: The number of runs.
        findings: The findings.
        runs: The label of each job, with the results of its runs.
    """

    experiment: Experiment
    scale: Scale
    findings: Findings
    runs: tuple[tuple[str, tuple[Any, ...]], ...]


def named(names: Sequence[str], experiments: Sequence[Experiment]) -> list[Experiment]:
    """Return the experiments with these names, or all experiments if there are no names.

    Args:
        names: The names.
        experiments: All experiments.

    Returns:
        The experiments, in the order of `experiments`.

    Raises:
        InvalidValue: If a name is unknown.
    """
    known = [experiment.name for experiment in experiments]
    for name in names:
        one_of(known, name=name)
    return [experiment for experiment in experiments if not names or experiment.name in names]


def tasks_of(experiments: Sequence[Experiment], scale: Scale) -> list[Task]:
    """Return all tasks of the experiments. A task that several experiments share occurs once.

    The runs of a job follow one another, since they need the same noise, which each worker calibrates once.
    Runs that no figure shows come last: they only judge the order of curves that are close.

    Args:
        experiments: The experiments.
        scale: The number of runs.
    """
    found: dict[tuple[str, int], Task] = {}
    for work in (work for experiment in experiments for work in experiment.works(scale)):
        name = work.job.name
        for job, seed in work.tasks:
            found.setdefault((name, seed), (job, seed))
    return sorted(found.values(), key=lambda task: task[1] >= scale.runs)


def examined(experiment: Experiment, results: Results, scale: Scale) -> Item:
    """Evaluate the runs of an experiment.

    Args:
        experiment: The experiment.
        results: The results of all runs.
        scale: The number of runs.

    Returns:
        The experiment with its findings and the results of its runs.
    """
    return Item(
        experiment=experiment,
        scale=scale,
        findings=experiment.examine(results, scale),
        runs=tuple((work.label, tuple(results.of(work))) for work in _once(experiment.works(scale))),
    )


def _once(works: Sequence[Work]) -> list[Work]:
    """Remove duplicates: an experiment may show the same job in several places."""
    return list({work.job.name: work for work in works}.values())
