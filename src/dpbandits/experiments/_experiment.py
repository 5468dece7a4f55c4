"""What an experiment is: a statement of the paper, the runs that test it, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dpbandits._checks import whole
from dpbandits.experiments._findings import AGREES, DIFFERS, OPEN, Check, Findings
from dpbandits.simulation import Job

FULL_RUNS = 20  # the paper's
QUICK_RUNS = 3


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much is run. What rests on averages is judged on the full set alone."""

    runs: int = FULL_RUNS
    quick: bool = False

    def __post_init__(self) -> None:
        whole(2, runs=self.runs)  # a standard deviation needs two

    @property
    def judged(self) -> bool:
        """Whether there are enough runs to judge averages."""
        return self.runs >= FULL_RUNS and not self.quick

    def check(
        self, statement: str, holds: bool | None, found: str, *, why: str = "", scope: str = ""
    ) -> Check:
        """Judge a statement about averages: it holds, does not, or (None) cannot be told from chance."""
        if not self.judged:
            reason = "quick" if self.quick else f"{self.runs} runs, {FULL_RUNS} are needed"
            found, holds = f"{reason}: not judged. {found}", None
        verdict = {True: AGREES, False: DIFFERS, None: OPEN}[holds]
        shown = why if verdict == DIFFERS else ""
        return Check(statement=statement, verdict=verdict, found=found, why=shown, scope=scope)


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job, how it is called in tables, and how often it is run (seeds 0, 1, …)."""

    label: str
    job: Job[Any]
    runs: int

    @property
    def tasks(self) -> list[tuple[Job[Any], int]]:
        """The job with each of its seeds."""
        return [(self.job, seed) for seed in range(self.runs)]


class Results:
    """What came of the runs, by job and seed."""

    def __init__(self, found: Iterable[tuple[Job[Any], Any]]) -> None:
        self._runs: dict[str, dict[int, Any]] = {}
        for job, outcome in found:
            self._runs.setdefault(job.name, {})[outcome.seed] = outcome

    def of(self, work: Work) -> list[Any]:
        """The runs of one piece of work, by seed; others may have run the same job more often."""
        runs = self._runs[work.job.name]
        return [runs[seed] for seed in range(work.runs)]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure or table. `statement` is what the paper says in our words, `choices` what it leaves open."""

    name: str
    title: str
    statement: str
    choices: tuple[str, ...]
    works: Callable[[Scale], Sequence[Work]]
    examine: Callable[[Results, Scale], Findings]
