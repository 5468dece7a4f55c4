"""Sweeps: run every setting with every seed, in several processes or on a cluster, with a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

from threadpoolctl import ThreadpoolController

from dpbandits._checks import whole
from dpbandits.protocol import Spending, digest
from dpbandits.simulation._engine import Engine
from dpbandits.simulation._jobs import HERE, Task, run_tasks
from dpbandits.simulation._run import simulate
from dpbandits.simulation._setting import Setting
from dpbandits.simulation._trace import RunTrace


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """The job that runs a setting.

    Attributes:
        setting: The setting.
        spending: What `setting.planned()` returned, so that runs do not plan again. None plans in every run.
    """

    setting: Setting
    spending: Spending | None = None
    outcome: ClassVar[type[RunTrace]] = RunTrace

    @cached_property
    def name(self) -> str:
        """The fingerprint of the setting, which determines the spending."""
        return digest(self.setting)

    def run(self, seed: int) -> RunTrace:
        """Run the setting once."""
        return run_once(self.setting, seed, self.spending)


def run_once(setting: Setting, seed: int, spending: Spending | None = None) -> RunTrace:
    """Run one setting once. The result depends only on the setting and the seed.

    Args:
        setting: The setting.
        seed: The seed of the instance, the clients and the noise.
        spending: What `setting.planned()` returned. None plans again.

    Returns:
        The trace of the run.
    """
    # Several BLAS threads round differently, so results would depend on the number of workers.
    with _blas().limit(limits=1):
        instance = setting.instance(seed)
        study = setting.study(instance.actions, spending)
        return simulate(study, setting.people(instance), seed=seed)


def sweep(
    settings: Sequence[Setting],
    seeds: Sequence[int],
    *,
    workers: int | None = None,
    engine: Engine = HERE,
    checkpoint: Path | None = None,
) -> Iterator[tuple[Setting, RunTrace]]:
    """Run every setting with every seed.

    Args:
        settings: The settings; duplicates are run once.
        seeds: The seeds.
        workers: How many runs to compute at a time. None means 1 on this machine, and as many as possible on
            a cluster.
        engine: Where to run them: processes on this machine, or a Dask or Ray cluster.
        checkpoint: A file that keeps finished runs. Runs that it has are not repeated, on any engine.

    Yields:
        Each setting with the trace of a run, as runs finish and in no fixed order.

    Raises:
        DpbanditsError: A setting cannot run. This is checked before the first run.
        WorkersLost: The workers of the engine ended. Finished runs are in the checkpoint.

    Example:
        >>> import dpbandits as dp
        >>> setting = dp.Setting.of(actions=5, dimension=2, horizon=100, schedule="exponential")
        >>> [trace.rounds for _, trace in dp.sweep([setting], seeds=[1, 2])]
        [100, 100]
    """
    if workers is not None:
        whole(1, workers=workers)
    if len(seeds) == 0:
        return
    jobs = [_planned(setting) for setting in dict.fromkeys(settings)]
    for job in jobs:
        # Build the study here, so that an error is raised before any worker starts.
        job.setting.study(job.setting.instance(seeds[0]).actions, job.spending)
    tasks: list[Task[RunTrace]] = [(job, seed) for seed in seeds for job in jobs]
    named = {job.name: job.setting for job in jobs}
    for done, run in run_tasks(tasks, workers=workers, engine=engine, checkpoint=checkpoint):
        yield named[done.name], run


@cache
def _blas() -> ThreadpoolController:
    """Find the BLAS libraries once per process: the search takes about as long as a phase."""
    import scipy.linalg  # noqa: F401  so that its BLAS is loaded, and limited as well

    return ThreadpoolController()


def _planned(setting: Setting) -> Simulated:
    with _blas().limit(limits=1):
        return Simulated(setting=setting, spending=setting.planned())
