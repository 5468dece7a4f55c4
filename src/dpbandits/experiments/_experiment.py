"""The definition of an experiment: a statement of the paper, the runs that test it, and their evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dpbandits._checks import whole
from dpbandits.experiments._findings import AGREES, DIFFERS, OPEN, Check, Findings
from dpbandits.simulation import Job

FULL_RUNS = 20  # as in the paper
QUICK_RUNS = 3


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The number of runs. Statements about averages are judged only with the full number.

    Attributes:
        runs: The number of runs of each setting, at least 2.
        quick: Whether this is a quick set, which is not judged.
    """

    runs: int = FULL_RUNS
    quick: bool = False

    def __post_init__(self) -> None:
        whole(2, runs=self.runs)  # a standard deviation needs two runs

    @property
    def judged(self) -> bool:
        """Whether there are enough runs to judge averages."""
        return self.runs >= FULL_RUNS and not self.quick

    def check(
        self, statement: str, holds: bool | None, found: str, *, why: str = "", scope: str = ""
    ) -> Check:
        """Judge a statement about averages.

        Args:
            statement: What the paper says.
            holds: Whether the statement holds; None if the difference may be due to chance.
            found: Our numbers.
            why: Why the statement may not hold. The check has this text only if the verdict is `differs`.
            scope: The preset; empty if the statement does not depend on the preset.

        Returns:
            The check, with a verdict.
        """
        if not self.judged:
            reason = "quick" if self.quick else f"{self.runs} runs of the {FULL_RUNS} that are needed"
            found, holds = f"{reason}: not judged. {found}", None
        verdict = {True: AGREES, False: DIFFERS, None: OPEN}[holds]
        shown = why if verdict == DIFFERS else ""
        return Check(statement=statement, verdict=verdict, found=found, why=shown, scope=scope)


@dataclass(frozen=True, kw_only=True)
class Work:
    """A job, its label in tables, and how often it is run.

    Attributes:
        label: The label.
        job: The job.
        runs: The number of runs; the seeds are 0, 1, …
    """

    label: str
    job: Job[Any]
    runs: int

    @property
    def tasks(self) -> list[tuple[Job[Any], int]]:
        """The job with each of its seeds."""
        return [(self.job, seed) for seed in range(self.runs)]


class Results:
    """The results of the runs, by job and seed.

    Args:
        found: Jobs with their results.
    """

    def __init__(self, found: Iterable[tuple[Job[Any], Any]]) -> None:
        self._runs: dict[str, dict[int, Any]] = {}
        for job, outcome in found:
            self._runs.setdefault(job.name, {})[outcome.seed] = outcome

    def of(self, work: Work) -> list[Any]:
        """Return the runs of one work, ordered by seed. Other works may have run the same job more often.

        Args:
            work: The work.
        """
        runs = self._runs[work.job.name]
        return [runs[seed] for seed in range(work.runs)]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure or table of the paper.

    Attributes:
        name: The name on the command line.
        title: The title in the report.
        statement: What the paper says, in our words.
        choices: What the paper leaves open, and what we chose.
        works: Returns the runs of a scale.
        examine: Evaluates the results.
    """

    name: str
    title: str
    statement: str
    choices: tuple[str, ...]
    works: Callable[[Scale], Sequence[Work]]
    examine: Callable[[Results, Scale], Findings]
