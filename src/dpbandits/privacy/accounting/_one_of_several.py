"""The privacy event if exactly one of several events took place, and it is not known which."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.privacy.accounting._event import Event


@dataclass(frozen=True, kw_only=True)
class WorstOf:
    """Exactly one of several events took place, and it is not known which.

    Its δ(ε) is the largest δ(ε) of these events at every ε, so it is an upper bound for each of them.
    Example: a client that took part in some phase of a study.

    Attributes:
        events: The events.
    """

    events: tuple[Event, ...]

    @property
    def accountant(self) -> str:
        """The accountants of all events."""
        return " or ".join(dict.fromkeys(event.accountant for event in self.events))

    @property
    def pure_epsilon(self) -> float:
        """The largest pure ε of the events."""
        return max((event.pure_epsilon for event in self.events), default=math.inf)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return the largest lower bound and the largest upper bound."""
        bounds = [event.delta_bounds(epsilon) for event in self.events]
        return max(lower for lower, _ in bounds), max(upper for _, upper in bounds)

    def delta(self, epsilon: float) -> float:
        """Return the largest δ(ε) of the events."""
        return max(event.delta(epsilon) for event in self.events)

    def epsilon(self, delta: float) -> float:
        """Return the largest ε of the events."""
        return max(event.epsilon(delta) for event in self.events)

    def repeated(self, times: int) -> WorstOf:
        """Return the event in which the same event takes place `times` times."""
        return WorstOf(events=tuple(event.repeated(times) for event in self.events))

    def group(self, size: int) -> WorstOf:
        """Return the event for a group of `size` clients that took part in the same event."""
        return WorstOf(events=tuple(event.group(size) for event in self.events))
