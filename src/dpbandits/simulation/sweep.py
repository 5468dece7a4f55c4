"""Many runs on all cores: the same numbers whatever the number of workers, and none lost.

A checkpoint is a file with one finished run a line. A sweep that is interrupted and started again with
the same checkpoint does only what is missing; a line that was cut off in the middle is done again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from dpbandits.checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.protocol import decode, encode
from dpbandits.protocol.codec import digest
from dpbandits.protocol.planning import Spending
from dpbandits.simulation.run import simulate
from dpbandits.simulation.setting import Setting
from dpbandits.simulation.trace import RunTrace


@dataclass(frozen=True, kw_only=True)
class Finished:
    """One run of a sweep: which setting (by fingerprint), and what came of it."""

    setting: str
    run: RunTrace


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
    named = {digest(setting): setting for setting in settings}
    with threadpool_limits(limits=1):
        planned = {name: setting.planned() for name, setting in named.items()}
    for name, setting in named.items():
        setting.study(setting.instance(seeds[0]).actions, planned[name])  # raises what a worker would
    done = _read(checkpoint, named) if checkpoint is not None and checkpoint.exists() else {}
    wanted = [(name, seed) for seed in seeds for name in named]
    for name, seed in wanted:
        if (name, seed) in done:
            yield named[name], done[name, seed]
    missing = [(name, seed) for name, seed in wanted if (name, seed) not in done]
    tasks = [(name, named[name], seed, planned[name]) for name, seed in missing]
    for name, run in _compute(tasks, workers):
        if checkpoint is not None:
            with checkpoint.open("ab") as file:
                file.write(encode(Finished(setting=name, run=run)) + b"\n")
        yield named[name], run


Task = tuple[str, Setting, int, Spending]


def _compute(tasks: Sequence[Task], workers: int) -> Iterator[tuple[str, RunTrace]]:
    if workers == 1 or len(tasks) <= 1:
        yield from map(_named_run, tasks)
        return
    parallel = Parallel(n_jobs=workers, return_as="generator_unordered")
    with closing(parallel(delayed(_named_run)(task) for task in tasks)) as runs:
        yield from runs


def _named_run(task: Task) -> tuple[str, RunTrace]:
    name, setting, seed, spending = task
    return name, run_once(setting, seed, spending)


def _read(checkpoint: Path, named: dict[str, Setting]) -> dict[tuple[str, int], RunTrace]:
    content = checkpoint.read_bytes()
    lines = content.split(b"\n")
    if lines.pop():  # an interrupted write: take the half line off, its run is done again
        checkpoint.write_bytes(content[: content.rfind(b"\n") + 1])
    try:
        found = [decode(line, Finished) for line in lines]
    except InvalidValue:
        raise InvalidValue("checkpoint", checkpoint, "a file that an earlier sweep wrote") from None
    return {(entry.setting, entry.run.seed): entry.run for entry in found if entry.setting in named}
