"""Run jobs in several processes, with a checkpoint. The results do not depend on the number of processes.

A job is run with a seed. A checkpoint is a file with one finished run per line. A line is written as soon as
its run is finished. After an interruption, the same call with the same checkpoint runs only what is missing.
A line that is cut off or cannot be read is run again. A file without any readable line is not a checkpoint,
and is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIG_IGN, SIGINT, signal
from threading import current_thread, main_thread
from typing import Any, Protocol, TypeVar

import msgspec

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.protocol import decode, encode


class Outcome(Protocol):
    """The result of a run: a frozen value that knows its seed."""

    @property
    def seed(self) -> int:
        """The seed of the run."""
        ...


Found = TypeVar("Found", bound=Outcome, covariant=True)
Kind = TypeVar("Kind", bound=Outcome)


class Job(Protocol[Found]):
    """Something to run. The result must depend on the seed and on nothing else."""

    @property
    def name(self) -> str:
        """A fingerprint. Jobs with the same name must do the same."""
        ...

    @property
    def outcome(self) -> type[Found]:
        """The type of the result."""
        ...

    def run(self, seed: int) -> Found:
        """Run the job once."""
        ...


Task = tuple[Job[Kind], int]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A line of a checkpoint: the name of the job, and its result."""

    setting: str
    run: msgspec.Raw


def run_tasks(
    tasks: Sequence[Task[Kind]], *, workers: int = 1, checkpoint: Path | None = None
) -> Iterator[tuple[Job[Kind], Kind]]:
    """Run every job with its seed.

    Args:
        tasks: Pairs of a job and a seed.
        workers: The number of processes.
        checkpoint: The file of finished runs. It is created if it does not exist.

    Yields:
        Each job with its result: first those of the checkpoint, then the others as they finish.

    Raises:
        InvalidValue: The checkpoint is a file that no sweep wrote.
    """
    whole(1, workers=workers)
    done = _read(checkpoint, tasks) if checkpoint is not None and checkpoint.exists() else {}
    missing = list[Task[Kind]]()
    for job, seed in tasks:
        if (job.name, seed) in done:
            yield job, done[job.name, seed]
        else:
            missing.append((job, seed))
    for job, found in _compute(missing, workers):
        if checkpoint is not None:
            with checkpoint.open("ab") as file:
                file.write(encode(Kept(setting=job.name, run=msgspec.Raw(encode(found)))) + b"\n")
        yield job, found


def _compute(tasks: Sequence[Task[Kind]], workers: int) -> Iterator[tuple[Job[Kind], Kind]]:
    if workers == 1 or len(tasks) <= 1:
        for job, seed in tasks:
            yield job, job.run(seed)
        return
    from joblib import Parallel, delayed  # slow to import, and needed only here

    parallel = Parallel(n_jobs=workers, return_as="generator_unordered")
    with _ignoring_interrupts():
        running = parallel(delayed(_numbered)(number, *task) for number, task in enumerate(tasks))
    with closing(running) as runs:
        for number, found in runs:
            yield tasks[number][0], found


@contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Start workers that ignore Ctrl-C. The main process stops them, so they print no tracebacks."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal(SIGINT, SIG_IGN)  # processes that are started now inherit this
    try:
        yield
    finally:
        signal(SIGINT, before)


def _numbered(number: int, job: Job[Kind], seed: int) -> tuple[int, Kind]:
    return number, job.run(seed)


def _read(checkpoint: Path, tasks: Sequence[Task[Kind]]) -> dict[tuple[str, int], Kind]:
    content = checkpoint.read_bytes()
    lines = content.split(b"\n")
    half = lines.pop()  # not empty after an interrupted write
    found = [kept for line in lines if (kept := _readable(line, Kept)) is not None]
    if lines and not found:
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
