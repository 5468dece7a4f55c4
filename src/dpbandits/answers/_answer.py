"""`Answer`: what a study has found, as a plain value that can be sent as JSON. See docs/options.md."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.options import Effect


@dataclass(frozen=True, kw_only=True)
class Lead:
    """By how much the best option is better than another one, in mean reward.

    Attributes:
        over: The other option.
        estimate: The estimated difference.
        low: The lower end of its interval. If it is above 0, the best option is better at the stated level.
        high: The upper end.
    """

    over: str
    estimate: float
    low: float
    high: float

    @property
    def interval(self) -> tuple[float, float]:
        """Both ends."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.estimate:.4g} over {self.over} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True, kw_only=True)
class OptionResult:
    """What was learnt about one option.

    Attributes:
        option: Its name.
        estimate: Its estimated mean reward.
        low: The lower end of the interval of its mean reward.
        high: The upper end.
        behind: By how much the best option is estimated to be better.
        behind_low: The lower end of the interval of that difference.
        behind_high: The upper end.
        may_be_best: Whether the study did not drop it.
        action: Its row in the actions, counted from 0.
    """

    option: str
    estimate: float
    low: float
    high: float
    behind: float
    behind_low: float
    behind_high: float
    may_be_best: bool
    action: int


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer of a study, computed from its releases alone.

    Each kind of interval holds with probability `level`: those of all mean rewards together, those of all
    differences between two options together, that of the lead over `current`, and those of all effects
    together. An end of an interval is null in JSON if nothing is known about it.

    Attributes:
        action: The row of the best option, by the estimate from all phases together. The study plays it once
            no more clients are asked.
        option: Its name, or `action 17` if the options have no names.
        estimate: Its estimated mean reward.
        low: The lower end of the interval of its mean reward.
        high: The upper end.
        lead: Its lead over the runner-up; None if there is no other option.
        lead_over_current: Its lead over the option in use today; None if none was named.
        current: The option in use today.
        level: The probability with which each kind of interval covers the truth.
        intervals: Why the intervals are only the range of rewards; empty if they are computed from data.
        consistent: Whether the phases agree. If not, the mean reward is probably not linear in the features,
            and the intervals need not hold.
        decided: Whether the best option is better than every other option left, at `level`. This is also so
            if it is the only one left.
        participants: How many clients were asked so far.
        options: What was learnt about the options, the highest estimate first.
        effects: What was learnt about each feature; empty if the options have no features.
        parameter: The estimate of θ from all phases together.
    """

    action: int
    option: str
    estimate: float
    low: float
    high: float
    lead: Lead | None
    lead_over_current: Lead | None
    current: str | None
    level: float
    intervals: str
    consistent: bool
    decided: bool
    participants: int
    options: tuple[OptionResult, ...]
    effects: tuple[Effect, ...]
    parameter: tuple[float, ...]
