"""Sweeps: run every setting with every seed, in parallel, with an optional checkpoint file."""

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
    """The job of running a setting.

    Attributes:
        setting: The setting.
        spending: The result of `setting.planned()`. None plans again in each run.
    """

    setting: Setting
    spending: Spending | None = None

    @cached_property
    def name(self) -> str:
        """The fingerprint of the setting. The spending is left out because the setting determines it."""
        return digest(self.setting)

    @property
    def outcome(self) -> type[RunTrace]:
        """`RunTrace`."""
        return RunTrace

    def run(self, seed: int) -> RunTrace:
        """Run the setting with one seed."""
        return run_once(self.setting, seed, self.spending)


def run_once(setting: Setting, seed: int, spending: Spending | None = None) -> RunTrace:
    """Run one setting with one seed.

    Example: `run_once(Setting.of(trust="central", actions=50, dimension=5), seed=0).regret`.

    Args:
        setting: The setting.
        seed: The seed of the instance, the rewards and the noise.
        spending: The result of `setting.planned()`. None plans again.

    Returns:
        The trace of the run.
    """
    # With several BLAS threads rounding differs, so results would depend on the number of workers.
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
    """Run every setting with every seed.

    Args:
        settings: The settings.
        seeds: The seeds. At least one is needed.
        workers: The number of processes.
        checkpoint: A file of finished runs, which are not computed again. None keeps no runs.

    Yields:
        The setting and the trace of each run as soon as it is finished, in no fixed order.

    Raises:
        DpbanditsError: If a setting cannot run. All settings are checked before the first run starts.
        InvalidValue: If `workers` is below 1, or the checkpoint is not a file that an earlier sweep wrote.
    """
    whole(1, workers=workers)
    jobs = [_planned(setting) for setting in dict.fromkeys(settings)]
    for job in jobs:
        job.setting.study(
            job.setting.instance(seeds[0]).actions, job.spending
        )  # raises here any error that a worker would raise
    tasks: list[Task[RunTrace]] = [(job, seed) for seed in seeds for job in jobs]
    named = {job.name: job.setting for job in jobs}
    for done, run in run_tasks(tasks, workers=workers, checkpoint=checkpoint):
        yield named[done.name], run


def _planned(setting: Setting) -> Simulated:
    with threadpool_limits(limits=1):
        return Simulated(setting=setting, spending=setting.planned())
