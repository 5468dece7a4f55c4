"""`Schedule`: how long each phase is and how many clients it asks (paper, Algorithm 1, lines 2, 5 and 7).

Phase l, counted from 1, has nominal length first_length·growth^(l−1): 2, 4, 8, … in the paper. The number of
clients that it asks follows one of three rules:

- ⌈2^{αl}⌉ clients until the horizon, the paper's `exponential` rule, or a fixed number as in DPE-FixedU.
- The l-th entry of a list of `cohorts`. After the last entry no more clients are asked, and the best guess is
  played to the end. `Schedule.shared` divides a budget of participants among a number of phases.
- If every round has its own client, as many clients as rounds (`Schedule.one_client_per_round`).

`maximum_cohort` limits the size of every cohort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits._checks import between, convert_to_floats, positive, whole
from dpbandits.design import support_bound
from dpbandits.errors import InvalidValue

_RULES = ("alpha", "fixed_cohort", "cohorts")
_LARGEST_EXPONENT = 62  # a cohort must fit a 64-bit integer


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Phases whose lengths grow by a factor, with cohorts from a rule or from a list.

    Attributes:
        alpha: The exponent α of the paper's rule ⌈2^{αl}⌉; None for another rule.
        fixed_cohort: The size of every cohort; None for another rule.
        maximum_cohort: The largest cohort; None for no limit.
        first_length: The nominal number of rounds of the first phase.
        growth: The factor from one phase length to the next, between 1.1 and 1000.
        cohorts: The size of each cohort in order; None for a rule.

    Raises:
        InvalidValue: More than one of `alpha`, `fixed_cohort` and `cohorts` is given, or a number is out of
            range. If none of the three is given, the schedule suits only a study with one client per round.

    Example:
        >>> import dpbandits as dp
        >>> schedule = dp.Schedule(cohorts=(100, 200), first_length=50, growth=4)
        >>> [schedule.length(phase) for phase in (1, 2)], schedule.participants(1000)
        ([50, 200], 300)
        >>> dp.Schedule.exponential(0.8).cohort(10)
        256
    """

    alpha: float | None = None
    fixed_cohort: int | None = None
    maximum_cohort: int | None = None
    first_length: int = 2
    growth: float = 2.0
    cohorts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        whole(1, first_length=self.first_length)
        between(1.1, 1000, growth=self.growth)
        if self.alpha is not None:
            positive(alpha=self.alpha)
        convert_to_floats(self)
        if self.fixed_cohort is not None:
            whole(1, fixed_cohort=self.fixed_cohort)
        if self.maximum_cohort is not None:
            whole(1, maximum_cohort=self.maximum_cohort)
        if self.cohorts is not None:
            for clients in self.cohorts or (0,):
                whole(1, cohorts=clients)
        given = [name for name in _RULES if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidValue("schedule", " and ".join(given), "one of " + ", ".join(_RULES))

    @staticmethod
    def exponential(alpha: float = 0.8, *, maximum_cohort: int | None = None) -> Schedule:
        """Return the paper's schedule: phases of 2, 4, 8, … rounds, and ⌈2^{αl}⌉ clients in phase l.

        Args:
            alpha: The exponent α.
            maximum_cohort: The largest cohort; None for no limit.
        """
        return Schedule(alpha=alpha, maximum_cohort=maximum_cohort)

    @staticmethod
    def shared(
        participants: int,
        *,
        phases: int,
        first_length: int,
        growth: float,
        cohort_growth: float = 1.0,
        maximum_cohort: int | None = None,
    ) -> Schedule:
        """Divide `participants` among `phases` cohorts, each `cohort_growth` times the previous one.

        Example: `Schedule.shared(5000, phases=2, first_length=30, growth=8)` has cohorts (2500, 2500).

        Args:
            participants: How many clients are asked in total.
            phases: How many phases ask clients.
            first_length: The number of rounds of the first phase.
            growth: The factor from one phase length to the next.
            cohort_growth: The factor from one cohort to the next.
            maximum_cohort: The largest cohort; None for no limit.

        Returns:
            The schedule.
        """
        whole(1, phases=phases)
        whole(phases, participants=participants)
        positive(cohort_growth=cohort_growth)
        weights = [cohort_growth**phase for phase in range(phases)]
        sizes = [max(1, math.floor(participants * weight / sum(weights))) for weight in weights]
        largest = sizes.index(max(sizes))
        sizes[largest] += participants - sum(sizes)
        return Schedule(
            first_length=first_length, growth=growth, cohorts=tuple(sizes), maximum_cohort=maximum_cohort
        )

    @staticmethod
    def one_client_per_round(dimension: int) -> Schedule:
        """Return the schedule of DP-PE: h₁ = 4d log log d + 16, rounded up, then doubling.

        Each phase asks as many clients as it plays rounds.

        Args:
            dimension: The dimension d of the actions.
        """
        return Schedule(first_length=math.ceil(support_bound(dimension)))

    def length(self, phase: int) -> int:
        """Return the nominal number of rounds h_l; rounding each action's share up may add a few.

        Args:
            phase: The phase, counted from 1.
        """
        return math.ceil(round(self.first_length * self.growth ** (whole(1, phase=phase) - 1), 9))

    def asks(self, phase: int) -> bool:
        """Return whether this phase asks clients if it fits into the horizon.

        Args:
            phase: The phase, counted from 1.
        """
        return self.cohorts is None or phase <= len(self.cohorts)

    def cohort(self, phase: int) -> int:
        """Return the number of clients |U_l| that this phase asks.

        Args:
            phase: The phase, counted from 1.

        Raises:
            InvalidValue: The schedule has no rule for cohorts, or its cohorts have no such phase.
        """
        if self.cohorts is not None:
            size = self.cohorts[whole(1, len(self.cohorts), phase=phase) - 1]
        else:
            size = self.fixed_cohort or self._growing_cohort(whole(1, phase=phase))
        return size if self.maximum_cohort is None else min(size, self.maximum_cohort)

    def _growing_cohort(self, phase: int) -> int:
        if self.alpha is None:
            expected = "one of " + ", ".join(_RULES) + "; `plan_study` plans cohorts"
            raise InvalidValue("schedule", "no rule for the number of clients", expected)
        exponent = round(self.alpha * phase, 12)  # 0.7·10 is not exactly 7 in floating point
        if exponent <= _LARGEST_EXPONENT:
            return math.ceil(2**exponent)
        if self.maximum_cohort is not None:
            return self.maximum_cohort
        raise InvalidValue(
            "alpha",
            self.alpha,
            f"a smaller value, or a maximum_cohort: phase {phase} would ask 2^{exponent:g} clients",
        )

    def reporting_phases(self, horizon: int) -> int:
        """Return an upper bound on the number of phases that ask clients within the horizon.

        Args:
            horizon: The total number of rounds.
        """
        # Phase l lasts at least its nominal length, so this counts no phase too few.
        phases, rounds = 0, self.length(1)
        while rounds <= whole(1, horizon=horizon) and self.asks(phases + 1):
            phases += 1
            rounds += self.length(phases + 1)
        return phases

    def participants(self, horizon: int) -> int:
        """Return an upper bound on the number of clients that a study of `horizon` rounds asks.

        Args:
            horizon: The total number of rounds.
        """
        return sum(self.cohort(phase) for phase in range(1, self.reporting_phases(horizon) + 1))
