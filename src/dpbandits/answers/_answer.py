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

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.answers import answer_of
        >>> options = examples.options()
        >>> answer = answer_of(examples.after_one_phase(examples.study(options)), options, level=0.95)
        >>> answer.lead.over, round(answer.lead.estimate, 2)
        ('b', 0.8)
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
        may_be_best: Whether the study has not dropped the option.
        action: Its row in the actions, counted from 0.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.answers import answer_of
        >>> options = examples.options()
        >>> answer = answer_of(examples.after_one_phase(examples.study(options)), options, level=0.95)
        >>> [one.option for one in answer.options]
        ['a', 'b']
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
class Compared:
    """A finalist, compared with the current option by the confirmation.

    Attributes:
        option: Its name.
        estimate: The measured difference of its mean reward to that of the current option.
        low: The lower end of the interval of this difference.
        high: The upper end.
    """

    option: str
    estimate: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """What the confirmation of a study has found. It holds however mean rewards depend on features.

    Attributes:
        current: The current option.
        level: The probability with which all intervals together cover the truth.
        participants: How many clients the confirmation asked.
        assumes: What the intervals assume.
        compared: The finalists, the largest difference first.
    """

    current: str
    level: float
    participants: int
    assumes: str
    compared: tuple[Compared, ...]

    @property
    def best(self) -> str:
        """The measured option with the highest mean reward, which may be the current one."""
        return self.compared[0].option if self.compared[0].estimate > 0 else self.current

    @property
    def decided(self) -> bool:
        """Whether the interval of the first finalist lies above 0, or those of all finalists below 0."""
        return self.compared[0].low > 0 or all(one.high < 0 for one in self.compared)

    def __str__(self) -> str:
        first, shown = self.compared[0], f"({100 * self.level:g} %), whatever the model"
        if first.low > 0:
            ends = f"{first.estimate:.3g} ± {(first.high - first.low) / 2:.2g}"
            return f"{first.option} beats the current option by {ends} {shown}"
        if all(one.high < 0 for one in self.compared):
            least = -max(one.high for one in self.compared)
            return f"{self.current} beats all finalists, by at least {least:.2g} {shown}"
        interval = f"[{first.low:.3g}, {first.high:.3g}]"
        return f"undecided: {first.option} against {self.current}: {first.estimate:.3g} {interval} {shown}"


@dataclass(frozen=True, kw_only=True)
class FitCheck:
    """The test of lack of fit: whether a linear function of the features explains what was measured.

    Attributes:
        explained: Whether the test found no lack of fit. If the features do explain the mean rewards, this is
            False with a probability of at most `level`.
        about: An estimate of the root mean square of what the features leave out, in units of the reward.
        at_least: A lower bound on the largest deviation, in units of the reward; 0 if `explained`.
        level: The probability of a false alarm.
        coordinates: How many residual coordinates were tested.
        participants: How many clients reported these coordinates.
    """

    explained: bool
    about: float
    at_least: float
    level: float
    coordinates: int
    participants: int

    def __str__(self) -> str:
        if self.explained:
            return f"your features explain what was measured (test at level {100 * self.level:g} %)"
        return (
            f"your features do not explain what was measured: mean rewards deviate by about {self.about:.2g} "
            f"and by at least {self.at_least:.2g} for some option; add squares, interactions or features, "
            "or use a kernel"
        )


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
        effects: What was learnt about each feature; empty if the options have no features or a kernel.
        parameter: The estimate of θ from all phases together.
        confirmation: What the confirmation has found; None before it, or if the study has none.
        fit: Whether the features explain what was measured; None before the fit test, or without one.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.answers import answer_of
        >>> options = examples.options()
        >>> answer = answer_of(examples.after_one_phase(examples.study(options)), options, level=0.95)
        >>> answer.option, answer.participants, answer.level
        ('a', 200, 0.95)
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
    confirmation: Confirmed | None = None
    fit: FitCheck | None = None

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What is printed about the answer: pairs of a short name and a text."""
        reward = f"mean reward {self.estimate:.4g} [{self.low:.4g}, {self.high:.4g}]"
        same = "it is the option in use today" if self.option == self.current else self.lead_over_current
        told = [
            ("best", f"{self.option}: {reward}"),
            ("lead", self.lead),
            ("change", None if self.lead_over_current is None else same),
            ("fit", self.fit),
            ("confirmed", self.confirmation),
            ("level", f"{self.level:g} for each kind of interval"),
        ]
        if not self.consistent:
            told.append(("warning", "phases contradict each other: add squares, interactions or features"))
        return [(name, str(text)) for name, text in told if text is not None]
