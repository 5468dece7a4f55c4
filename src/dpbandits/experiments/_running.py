"""From experiments to tasks that are kept, and from finished runs to what they show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbandits._checks import one_of
from dpbandits.experiments._experiment import Experiment, Results, Scale, Work
from dpbandits.experiments._findings import Findings
from dpbandits.simulation import Job, run_tasks

Task = tuple[Job[Any], int]


@dataclass(frozen=True, kw_only=True)
class Item:
    """An experiment that was run: its findings, and the runs behind them."""

    experiment: Experiment
    scale: Scale
    findings: Findings
    runs: tuple[tuple[str, tuple[Any, ...]], ...]


def named(names: Sequence[str], experiments: Sequence[Experiment]) -> list[Experiment]:
    """The experiments of these names, in their own order; all if none is given."""
    known = [experiment.name for experiment in experiments]
    for name in names:
        one_of(known, name=name)
    return [experiment for experiment in experiments if not names or experiment.name in names]


def tasks_of(experiments: Sequence[Experiment], scale: Scale) -> list[Task]:
    """Everything to be run, each job with each seed once, though several experiments may want it.

    A job's runs follow one another: they need the same noise, which is calibrated once for each worker. Runs
    beyond those that figures show, which judge close orders, come last.
    """
    found: dict[tuple[str, int], Task] = {}
    for work in (work for experiment in experiments for work in experiment.works(scale)):
        name = work.job.name
        for job, seed in work.tasks:
            found.setdefault((name, seed), (job, seed))
    return sorted(found.values(), key=lambda task: task[1] >= scale.runs)


def run_cached(tasks: Sequence[Task], *, workers: int, cache: Path) -> Iterator[tuple[Job[Any], Any]]:
    """Run what the cache does not have; yields every run, as it is found or finished."""
    yield from run_tasks(tasks, workers=workers, checkpoint=cache)


def examined(experiment: Experiment, results: Results, scale: Scale) -> Item:
    """What the runs show."""
    return Item(
        experiment=experiment,
        scale=scale,
        findings=experiment.examine(results, scale),
        runs=tuple((work.label, tuple(results.of(work))) for work in _once(experiment.works(scale))),
    )


def _once(works: Sequence[Work]) -> list[Work]:
    """Each job's work once, where an experiment shows it in several places."""
    return list({work.job.name: work for work in works}.values())
