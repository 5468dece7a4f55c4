"""How long a phase is and how many clients it asks (paper, Algorithm 1, lines 2, 5 and 7).

Phase l, counted from one, has nominal length first_length·growth^(l−1): 2, 4, 8, … in the paper. It asks

- ⌈2^{αl}⌉ clients, the paper's `exponential` rule, or a fixed number in DPE-FixedU, until the horizon;
- or the l-th of a list of `cohorts`. After the last of these nobody is asked any more, and the best guess is
  played to the end. `Schedule.shared` divides a budget of participants among so many phases;
- or, where every round has a client of its own, as many as it has rounds (`Schedule.one_client_a_round`).

`maximum_cohort` caps every cohort.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits._checks import between, positive, whole
from dpbandits.design import support_bound
from dpbandits.errors import InvalidValue

_LARGEST_EXPONENT = 62  # a cohort must fit a 64-bit integer


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Phases whose lengths grow by a factor, with cohorts by a rule or from a list."""

    alpha: float = 0.8
    fixed_cohort: int | None = None
    maximum_cohort: int | None = None
    first_length: int = 2
    growth: float = 2.0
    cohorts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        whole(1, first_length=self.first_length)
        # 4 and 4.0 are the same factor, and must have the same digest.
        object.__setattr__(self, "alpha", positive(alpha=self.alpha))
        object.__setattr__(self, "growth", between(1.1, 1000, growth=self.growth))
        if self.fixed_cohort is not None:
            whole(1, fixed_cohort=self.fixed_cohort)
        if self.maximum_cohort is not None:
            whole(1, maximum_cohort=self.maximum_cohort)
        if self.cohorts is not None:
            whole(1, cohorts=min(self.cohorts, default=0))

    @staticmethod
    def exponential(alpha: float = 0.8, *, maximum_cohort: int | None = None) -> Schedule:
        """The paper's: phases of 2, 4, 8, … rounds, and ⌈2^{αl}⌉ clients in phase l."""
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
        """Divide `participants` among `phases` cohorts, each `cohort_growth` times the one before."""
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
    def one_client_a_round(dimension: int) -> Schedule:
        """DP-PE: h₁ = 4d log log d + 16, rounded up, then doubling; phases ask as many as they play."""
        return Schedule(first_length=math.ceil(support_bound(dimension)))

    def length(self, phase: int) -> int:
        """The nominal number of rounds h_l; rounding each action's share up may add a few."""
        return math.ceil(round(self.first_length * self.growth ** (whole(1, phase=phase) - 1), 9))

    def asks(self, phase: int) -> bool:
        """Whether anybody is asked in this phase, if the horizon allows."""
        return self.cohorts is None or phase <= len(self.cohorts)

    def cohort(self, phase: int) -> int:
        """The number of clients |U_l| that phase `phase` asks."""
        if self.cohorts is not None:
            size = self.cohorts[whole(1, len(self.cohorts), phase=phase) - 1]
        else:
            size = self.fixed_cohort or self._growing_cohort(whole(1, phase=phase))
        return size if self.maximum_cohort is None else min(size, self.maximum_cohort)

    def _growing_cohort(self, phase: int) -> int:
        exponent = round(self.alpha * phase, 12)  # .7·10 is 7, though not in floating point
        if exponent <= _LARGEST_EXPONENT:
            return math.ceil(2**exponent)
        if self.maximum_cohort is not None:
            return self.maximum_cohort
        raise InvalidValue(
            "alpha",
            self.alpha,
            f"a smaller one, or a maximum cohort: phase {phase} would ask 2^{exponent:g} clients",
        )

    def reporting_phases(self, horizon: int) -> int:
        """The most phases that can end within the horizon, and so report."""
        # Phase l lasts at least its nominal length.
        phases, rounds = 0, self.length(1)
        while rounds <= whole(1, horizon=horizon) and self.asks(phases + 1):
            phases += 1
            rounds += self.length(phases + 1)
        return phases

    def participants(self, horizon: int) -> int:
        """The most clients that a study of `horizon` rounds can ask."""
        return sum(self.cohort(phase) for phase in range(1, self.reporting_phases(horizon) + 1))
