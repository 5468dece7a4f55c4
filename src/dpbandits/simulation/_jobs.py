"""Runs jobs in several processes, with a checkpoint. Results do not depend on the processes or the engine.

A job is run with a seed. A checkpoint is a file with one finished run per line. A line is written as soon as
its run is finished. After an interruption, the same call with the same checkpoint runs only what is missing.
If a line is cut off or cannot be read, its run is repeated. A file without any readable line is not a
checkpoint, unless it is empty or contains only the beginning of a first line. Such a file is not changed.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from threadpoolctl import threadpool_limits

from dpbandits import __version__
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue, WorkersLost
from dpbandits.protocol import decode, encode
from dpbandits.simulation._engine import Engine, Pool, ignoring_interrupts

HERE: Engine = Engine()
_DEATHS = 10  # a sweep ends after this many losses of workers in a row, without a finished run
_BEGINNING = b'{"setting":'  # of every line of a checkpoint


class Outcome(Protocol):
    """The result of a run: a frozen value that knows its seed."""

    @property
    def seed(self) -> int:
        """The seed of the run."""
        ...


Found = TypeVar("Found", bound=Outcome, covariant=True)
Kind = TypeVar("Kind", bound=Outcome)


class Job(Protocol[Found]):
    """A computation that takes a seed. The result must depend on the job and the seed only."""

    @property
    def name(self) -> str:
        """A fingerprint. Jobs with the same name must return the same results."""
        ...

    @property
    def outcome(self) -> type[Found]:
        """The type of the result."""
        ...

    def run(self, seed: int) -> Found:
        """Run the job once.

        Args:
            seed: The seed.
        """
        ...


Task = tuple[Job[Kind], int]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A line of a checkpoint: the name of the job, and its result."""

    setting: str
    run: msgspec.Raw


def run_tasks(
    tasks: Sequence[Task[Kind]],
    *,
    workers: int | None = None,
    engine: Engine = HERE,
    checkpoint: Path | None = None,
) -> Iterator[tuple[Job[Kind], Kind]]:
    """Run every job with its seed.

    Args:
        tasks: Pairs of a job and a seed.
        workers: How many runs to compute at a time. None means 1 on this machine, and as many as possible on
            a cluster.
        engine: Where to run them. A checkpoint may be continued with another engine.
        checkpoint: The file of finished runs. It is created if it does not exist.

    Yields:
        Each job with its result: first those of the checkpoint, then the others as they finish.

    Raises:
        InvalidValue: The file is not a checkpoint, or the engine cannot be used.
        WorkersLost: The workers of the engine ended. Finished runs are in the checkpoint.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.simulation import Simulated, run_tasks
        >>> setting = dp.Setting.of(actions=20, dimension=3, horizon=1000, trust="none")
        >>> [(job, trace)] = run_tasks([(Simulated(setting=setting), 7)])
        >>> trace.rounds
        1000
    """
    if workers is not None:
        whole(1, workers=workers)
    done = _read(checkpoint, tasks) if checkpoint is not None and checkpoint.exists() else {}
    missing = list[Task[Kind]]()
    for job, seed in tasks:
        if (job.name, seed) in done:
            yield job, done[job.name, seed]
        else:
            missing.append((job, seed))
    for job, found in _compute(missing, workers, engine):
        if checkpoint is not None:
            with checkpoint.open("ab") as file:
                file.write(encode(Kept(setting=job.name, run=msgspec.Raw(encode(found)))) + b"\n")
        yield job, found


def _compute(
    tasks: Sequence[Task[Kind]], workers: int | None, engine: Engine
) -> Iterator[tuple[Job[Kind], Kind]]:
    if engine.local and ((workers or 1) == 1 or len(tasks) <= 1):
        for job, seed in tasks:
            yield job, job.run(seed)
    elif tasks:
        with engine.open(workers) as pool:
            yield from _distributed(tasks, pool)


def _distributed(tasks: Sequence[Task[Kind]], pool: Pool) -> Iterator[tuple[Job[Kind], Kind]]:
    """Yield every result once.

    If a worker is lost, the runs that were under way become suspects, since one of them may have killed it.
    Suspects start again after all other runs, one at a time. So a run that always kills its worker does not
    stop the others.
    """
    left, suspects, deaths = dict(enumerate(tasks)), set[int](), 0
    while left:
        fresh = {number: task for number, task in left.items() if number not in suspects}
        handed = list[int]()
        try:
            with _started(fresh or dict(left), pool, pool.queued if fresh else 1, handed) as runs:
                for number, found in runs:
                    deaths = 0
                    yield left.pop(number)[0], found
        except (*pool.losses, *pool.ends) as error:
            deaths += 1
            if deaths == _DEATHS or isinstance(error, pool.ends):
                reason = str(error).partition("\n")[0]
                raise WorkersLost(len(left), f"{type(error).__name__}: {reason}") from error
            suspects |= {number for number in handed if number in left}
            left = dict(sorted(left.items(), key=lambda item: item[0] in handed))  # suspects come last


@contextmanager
def _started(
    tasks: dict[int, Task[Kind]], pool: Pool, queued: int, handed: list[int]
) -> Iterator[Iterator[tuple[int, Kind]]]:
    """Give runs to the workers, `queued` at a time, and add them to `handed`. At the end, cancel the rest."""
    from joblib import Parallel, delayed  # slow to import, and needed only here

    def calls() -> Iterator[Any]:
        for number, task in tasks.items():
            handed.append(number)
            yield delayed(_run)(__version__, number, *task)

    parallel = Parallel(
        n_jobs=max(2, pool.slots),  # joblib would run a single one in this process
        backend=pool.backend,
        pre_dispatch=queued,
        batch_size=1 if queued == 1 else "auto",
        return_as="generator_unordered",
    )
    with ignoring_interrupts():
        running = parallel(calls())
    try:
        yield running
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # joblib warns about runs that are cancelled
            running.close()


def _run(version: str, number: int, job: Job[Kind], seed: int) -> tuple[int, Kind]:
    """Run a job in a worker."""
    if version != __version__:  # its results might differ
        raise InvalidValue("a worker's dpbandits", __version__, f"{version}, the version that runs the sweep")
    _use_one_blas_thread()
    return number, job.run(seed)


@cache
def _use_one_blas_thread() -> None:
    """Limit this process permanently. A worker may run jobs in several threads, which share the limit."""
    import scipy.linalg  # noqa: F401  so that its BLAS is loaded, and limited as well

    threadpool_limits(limits=1)


def _read(checkpoint: Path, tasks: Sequence[Task[Kind]]) -> dict[tuple[str, int], Kind]:
    content = checkpoint.read_bytes()
    lines = content.split(b"\n")
    half = lines.pop()  # not empty after an interrupted write
    found = [kept for line in lines if (kept := _readable(line, Kept)) is not None]
    first_was_cut_off = not lines and (half.startswith(_BEGINNING) or _BEGINNING.startswith(half))
    if not found and not first_was_cut_off:
        raise InvalidValue("checkpoint", checkpoint, "a checkpoint that an earlier sweep wrote")
    if half:  # its run is repeated
        checkpoint.write_bytes(content[: content.rfind(b"\n") + 1])
    kinds: dict[str, type[Kind]] = {job.name: job.outcome for job, _ in tasks}
    known = (kept for kept in found if kept.setting in kinds)
    runs = [(kept.setting, _readable(kept.run, kinds[kept.setting])) for kept in known]
    return {(name, run.seed): run for name, run in runs if run is not None}


def _readable(data: Any, kind: type[Any]) -> Any:
    try:
        return decode(data, kind)
    except InvalidValue:
        return None
