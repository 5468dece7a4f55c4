"""A mechanism that is nearly one whose account is known: what the difference adds to δ.

Example: a client redraws or replaces noise that is too large to send. The laws of the two mechanisms then
differ by at most the chance that this happens, which is their total-variation distance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpbandits._checks import at_least_zero_below_one, non_negative, probability, whole
from dpbandits.privacy.accounting._event import Event

_LARGEST_EPSILON = 600.0


@dataclass(frozen=True, kw_only=True)
class Approximated:
    """`event`, by a mechanism whose laws are within `distance` of it in total variation, for every input.

    For every set S of views P'(S) ≤ P(S) + η ≤ e^ε·Q(S) + δ + η ≤ e^ε·(Q'(S) + η) + δ + η, where η is the
    `distance`. So δ grows by (1 + e^ε)·η.
    """

    event: Event
    distance: float

    def __post_init__(self) -> None:
        at_least_zero_below_one(distance=self.distance)

    @property
    def accountant(self) -> str:
        """The exact event's."""
        return self.event.accountant

    @property
    def pure_epsilon(self) -> float:
        """None, unless the two mechanisms are the same."""
        return self.event.pure_epsilon if self.distance == 0 else math.inf

    def _added(self, epsilon: float) -> float:
        return self.distance * (1 + math.exp(epsilon)) if self.distance else 0.0

    def _capped(self, epsilon: float) -> float:
        """δ(ε) does not grow with ε: what holds at a smaller one holds."""
        return min(non_negative(epsilon=epsilon), _LARGEST_EPSILON) if self.distance else epsilon

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper), both moved outwards."""
        capped = self._capped(epsilon)
        lower = self.event.delta_bounds(capped)[0]
        lower = max(0.0, lower - self._added(capped)) if capped == epsilon else 0.0
        return lower, self.delta(epsilon)

    def delta(self, epsilon: float) -> float:
        """δ(ε) of the exact event and (1 + e^ε)·distance.

        The sum grows with ε once e^ε·distance is above δ(ε). What holds at a smaller ε holds all the same;
        it is not looked for, because every further account costs time that a hostile plan could demand.
        """
        capped = self._capped(epsilon)
        return min(1.0, self.event.delta(capped) + self._added(capped))

    def epsilon(self, delta: float) -> float:
        """An ε for which the mechanism is (ε, δ)-private, or infinity if none is found."""
        if self.distance == 0:
            return self.event.epsilon(delta)
        if delta == 0:
            return math.inf
        probability(delta=delta)
        epsilon = 0.0
        for _ in range(200):  # each step allows for what the distance adds at the ε of the step before
            left = delta - self._added(epsilon) if epsilon <= _LARGEST_EPSILON else 0.0
            if left <= 0:
                return math.inf
            found = self.event.epsilon(left)
            if found <= epsilon * (1 + 1e-9):
                return epsilon
            epsilon = found
        return math.inf

    def repeated(self, times: int) -> Approximated:
        """Distances add up."""
        more = whole(1, times=times)
        return replace(self, event=self.event.repeated(more), distance=min(self.distance * more, 1 - 1e-16))

    def group(self, size: int) -> Approximated:
        """The distance holds for every input, so for any number of replaced clients."""
        return replace(self, event=self.event.group(size))
