"""The event of a mechanism that is close, in total variation, to one whose event is known.

Example: a client replaces noise that is too large to send. The outcome distributions with and without
replacement then differ, in total variation, by at most the probability of a replacement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from dpbandits._checks import at_least_zero_below_one, non_negative, probability, whole
from dpbandits.privacy.accounting._event import Event

_LARGEST_EPSILON = 600.0  # e^ε does not overflow up to this ε


@dataclass(frozen=True, kw_only=True)
class Approximated:
    """A mechanism within `distance` of another one in total variation, for every input.

    For every set S of outcomes P'(S) ≤ P(S) + η ≤ e^ε·Q(S) + δ + η ≤ e^ε·(Q'(S) + η) + δ + η, where η is the
    `distance`. So δ grows by (1 + e^ε)·η.

    Attributes:
        event: The event of the other mechanism.
        distance: The total-variation distance η, at least 0 and below 1.
    """

    event: Event
    distance: float

    def __post_init__(self) -> None:
        at_least_zero_below_one(distance=self.distance)

    @property
    def accountant(self) -> str:
        """The accountant of the exact event."""
        return self.event.accountant

    @property
    def pure_epsilon(self) -> float:
        """The pure ε of the exact event if the distance is zero, otherwise infinity."""
        return self.event.pure_epsilon if self.distance == 0 else math.inf

    def _added(self, epsilon: float) -> float:
        """Return (1 + e^ε)·η, which the distance adds to δ."""
        return self.distance * (1 + math.exp(epsilon)) if self.distance else 0.0

    def _capped(self, epsilon: float) -> float:
        """Return ε, or the largest ε whose exponential does not overflow if that is smaller.

        δ(ε) never increases in ε, so a bound at a smaller ε also holds at a larger one.
        """
        return min(non_negative(epsilon=epsilon), _LARGEST_EPSILON) if self.distance else epsilon

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return the bounds of the exact event, widened by (1 + e^ε)·distance on both sides."""
        capped = self._capped(epsilon)
        lower = self.event.delta_bounds(capped)[0]
        # A lower bound at a smaller ε says nothing about a larger one.
        lower = max(0.0, lower - self._added(capped)) if capped == epsilon else 0.0
        return lower, self.delta(epsilon)

    def delta(self, epsilon: float) -> float:
        """Return δ(ε) of the exact event plus (1 + e^ε)·distance.

        The sum increases with ε once e^ε·distance exceeds δ(ε). A smaller ε would then give a smaller bound,
        which also holds. The code does not search for it: every further evaluation takes time, and a hostile
        plan could exploit that.
        """
        capped = self._capped(epsilon)
        return min(1.0, self.event.delta(capped) + self._added(capped))

    def epsilon(self, delta: float) -> float:
        """Return an ε for which the mechanism is (ε, δ)-private, or infinity if none is found."""
        if self.distance == 0:
            return self.event.epsilon(delta)
        if delta == 0:
            return math.inf
        probability(delta=delta)
        epsilon = 0.0
        for _ in range(200):  # each step subtracts what the distance adds at the previous ε
            left = delta - self._added(epsilon) if epsilon <= _LARGEST_EPSILON else 0.0
            if left <= 0:
                return math.inf
            found = self.event.epsilon(left)
            if found <= epsilon * (1 + 1e-9):
                return epsilon
            epsilon = found
        return math.inf

    def repeated(self, times: int) -> Approximated:
        """Return the repeated event; the distances add up."""
        more = whole(1, times=times)
        return replace(self, event=self.event.repeated(more), distance=min(self.distance * more, 1 - 1e-16))

    def group(self, size: int) -> Approximated:
        """Return the event for a group; the distance holds for every input, so it does not change."""
        return replace(self, event=self.event.group(size))
