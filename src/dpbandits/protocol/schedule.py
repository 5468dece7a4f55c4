"""How long a phase is and how many clients it asks (paper, Algorithm 1, lines 2, 5 and 7).

Phase l, counted from one, has nominal length h_l = first_length·2^(l−1), so 2, 4, 8, …, and asks
⌈2^{αl}⌉ clients, or a fixed number in DPE-FixedU; `maximum_cohort` caps either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.checks import positive, whole
from dpbandits.errors import InvalidValue

_LARGEST_EXPONENT = 62  # a cohort must fit a 64-bit integer


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Doubling phases with cohorts that grow as 2^{αl}, or of `fixed_cohort` clients each."""

    alpha: float = 0.8
    fixed_cohort: int | None = None
    maximum_cohort: int | None = None
    first_length: int = 2

    def __post_init__(self) -> None:
        positive(alpha=self.alpha)
        whole(1, first_length=self.first_length)
        if self.fixed_cohort is not None:
            whole(1, fixed_cohort=self.fixed_cohort)
        if self.maximum_cohort is not None:
            whole(1, maximum_cohort=self.maximum_cohort)

    def length(self, phase: int) -> int:
        """The nominal number of rounds h_l; rounding each action's share up may add a few."""
        return self.first_length << (whole(1, phase=phase) - 1)

    def cohort(self, phase: int) -> int:
        """The number of clients |U_l| that phase `phase` asks."""
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
        # Phase l lasts at least h_l rounds, so l phases last at least first_length·(2^l − 1).
        return (whole(1, horizon=horizon) // self.first_length + 1).bit_length() - 1

    def participants(self, horizon: int) -> int:
        """The most clients that a study of `horizon` rounds can ask."""
        return sum(self.cohort(phase) for phase in range(1, self.reporting_phases(horizon) + 1))
