"""`Cohorts`: how a simulation divides its participants among the phases."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._checks import one_of, whole

SCHEDULES = ("exponential", "equal", "budgeted")


@dataclass(frozen=True, kw_only=True)
class Cohorts:
    """Options for the cohort sizes. `Setting.planned` turns them into a schedule.

    Example: `Cohorts(schedule="budgeted", participants=5000)` plans the best division of 5,000 clients among
    the phases. `Cohorts(schedule="exponential", alpha=0.5)` has ⌈2^(l/2)⌉ clients in phase l.

    Attributes:
        schedule: `exponential` is the paper's, `equal` has equal cohorts, `budgeted` plans the cohorts. None
            chooses `budgeted` for preset tight and `exponential` for preset paper.
        participants: The number of clients that the schedules `equal` and `budgeted` ask. None takes as many
            as the exponential schedule.
        alpha: In the exponential schedule phase l asks ⌈2^(alpha·l)⌉ clients.
        fixed_cohort: The cohort of every phase with algorithm dpe-fixed.
        maximum_cohort: An upper bound on every cohort.
    """

    schedule: str | None = None
    participants: int | None = None
    alpha: float = 0.8
    fixed_cohort: int = 97
    maximum_cohort: int | None = None

    def __post_init__(self) -> None:
        if self.schedule is not None:
            one_of(SCHEDULES, schedule=self.schedule)
        if self.participants is not None:
            whole(1, participants=self.participants)
