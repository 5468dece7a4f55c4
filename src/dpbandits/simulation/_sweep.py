"""Sweeps over settings: every setting with every seed, on all cores, with a checkpoint if one is wanted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from threadpoolctl import threadpool_limits

from dpbandits._checks import whole
from dpbandits.protocol import Spending, digest
from dpbandits.simulation._jobs import Task, run_tasks
from dpbandits.simulation._run import simulate
from dpbandits.simulation._setting import Setting
from dpbandits.simulation._trace import RunTrace


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The job of running a setting; spending that is known need not be planned again for each run."""

    setting: Setting
    spending: Spending | None = None

    @cached_property
    def name(self) -> str:
        """The setting's fingerprint: what is spent follows from it."""
        return digest(self.setting)

    @property
    def outcome(self) -> type[RunTrace]:
        """A trace."""
        return RunTrace

    def run(self, seed: int) -> RunTrace:
        """One run, from its seed alone."""
        return run_once(self.setting, seed, self.spending)


def run_once(setting: Setting, seed: int, spending: Spending | None = None) -> RunTrace:
    """One run of one setting, from its seed alone; known spending need not be planned again."""
    # More BLAS threads would round differently, and so make results depend on the number of workers.
    with threadpool_limits(limits=1):
        instance = setting.instance(seed)
        study = setting.study(instance.actions, spending)
        return simulate(study, setting.people(instance), seed=seed)


def sweep(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    *,
    workers: int = 1,
    checkpoint: Path | None = None,
) -> Iterator[tuple[Setting, RunTrace]]:
    """Run every setting with every seed; yields each run as it is finished, in no fixed order."""
    whole(1, workers=workers)
    jobs = [_planned(setting) for setting in dict.fromkeys(settings)]
    for job in jobs:
        job.setting.study(job.setting.instance(seeds[0]).actions, job.spending)  # raises what a worker would
    tasks: list[Task[RunTrace]] = [(job, seed) for seed in seeds for job in jobs]
    named = {job.name: job.setting for job in jobs}
    for done, run in run_tasks(tasks, workers=workers, checkpoint=checkpoint):
        yield named[done.name], run


def _planned(setting: Setting) -> Simulated:
    with threadpool_limits(limits=1):
        return Simulated(setting=setting, spending=setting.planned())
