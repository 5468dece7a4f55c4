"""Runs on all cores: the same numbers whatever the number of workers, and none lost.

A job is what is run with a seed. A checkpoint is a file with one finished run a line, written as soon as it
is finished. Whoever is interrupted and starts again with the same checkpoint does only what is missing; a
line that was cut off in the middle, or cannot be read, is done again. A file without one readable line is no
checkpoint and is not touched.
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
    """What a run leaves behind: a frozen value that says which seed it came from."""

    @property
    def seed(self) -> int:
        """Of the run."""
        ...


Found = TypeVar("Found", bound=Outcome, covariant=True)
Kind = TypeVar("Kind", bound=Outcome)


class Job(Protocol[Found]):
    """What is run with a seed, and with it alone."""

    @property
    def name(self) -> str:
        """A fingerprint: jobs of the same name do the same."""
        ...

    @property
    def outcome(self) -> type[Found]:
        """The type of what a run leaves behind."""
        ...

    def run(self, seed: int) -> Found:
        """One run."""
        ...


Task = tuple[Job[Kind], int]


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A line of a checkpoint: whose run (the job's name), and what came of it."""

    setting: str
    run: msgspec.Raw


def run_tasks(
    tasks: Sequence[Task[Kind]], *, workers: int = 1, checkpoint: Path | None = None
) -> Iterator[tuple[Job[Kind], Kind]]:
    """Run every job with its seed; yields each run as it is finished, those of the checkpoint first."""
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
    with _deaf_to_interrupts():
        running = parallel(delayed(_numbered)(number, *task) for number, task in enumerate(tasks))
    with closing(running) as runs:
        for number, found in runs:
            yield tasks[number][0], found


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Workers started here do not hear Ctrl-C: who started them ends them, without their tracebacks."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal(SIGINT, SIG_IGN)  # what is ignored stays so in processes that are started meanwhile
    try:
        yield
    finally:
        signal(SIGINT, before)


def _numbered(number: int, job: Job[Kind], seed: int) -> tuple[int, Kind]:
    return number, job.run(seed)


def _read(checkpoint: Path, tasks: Sequence[Task[Kind]]) -> dict[tuple[str, int], Kind]:
    content = checkpoint.read_bytes()
    lines = content.split(b"\n")
    half = lines.pop()  # an interrupted write, if it is not empty
    found = [kept for line in lines if (kept := _readable(line, Kept)) is not None]
    if lines and not found:
        raise InvalidValue("checkpoint", checkpoint, "a file that an earlier sweep wrote")
    if half:  # its run is done again
        checkpoint.write_bytes(content[: content.rfind(b"\n") + 1])
    kinds: dict[str, type[Kind]] = {job.name: job.outcome for job, _ in tasks}
    runs = [
        (kept.setting, _readable(kept.run, kinds[kept.setting])) for kept in found if kept.setting in kinds
    ]
    return {(name, run.seed): run for name, run in runs if run is not None}


def _readable(data: Any, kind: type[Any]) -> Any:
    try:
        return decode(data, kind)
    except InvalidValue:
        return None
