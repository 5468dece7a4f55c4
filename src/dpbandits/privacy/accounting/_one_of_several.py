"""One of several events, and nobody can say which."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.privacy.accounting._event import Event


@dataclass(frozen=True, kw_only=True)
class WorstOf:
    """Any one of the `events`: its curve is the largest of theirs at every ε, and theirs are below it."""

    events: tuple[Event, ...]

    @property
    def accountant(self) -> str:
        """Those of the events."""
        return " or ".join(dict.fromkeys(event.accountant for event in self.events))

    @property
    def pure_epsilon(self) -> float:
        """The largest."""
        return max((event.pure_epsilon for event in self.events), default=math.inf)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """The largest of both."""
        bounds = [event.delta_bounds(epsilon) for event in self.events]
        return max(lower for lower, _ in bounds), max(upper for _, upper in bounds)

    def delta(self, epsilon: float) -> float:
        """The largest."""
        return max(event.delta(epsilon) for event in self.events)

    def epsilon(self, delta: float) -> float:
        """The largest."""
        return max(event.epsilon(delta) for event in self.events)

    def repeated(self, times: int) -> WorstOf:
        """The same one of them each time."""
        return WorstOf(events=tuple(event.repeated(times) for event in self.events))

    def group(self, size: int) -> WorstOf:
        """Each of them."""
        return WorstOf(events=tuple(event.group(size) for event in self.events))
