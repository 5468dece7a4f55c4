"""One interface to everything that spends privacy: events, how they compose, and what holds then.

Neighbouring is always "one client replaced"; `group` replaces several at once. The interface:

    event.delta_bounds(ε)   (lower, upper) around the true δ(ε)
    event.delta(ε)          the upper one: the event is (ε, δ)-DP
    event.epsilon(δ)        the least ε found for which that is so; δ = 0 asks for pure privacy
    event.repeated(m)       the same thing m times to the same client, with fresh noise
    event.group(k)          for k clients replaced together
    compose(events)         different events about the same client
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from dpbandits._checks import non_negative, positive, probability, whole
from dpbandits.errors import OutsideTheorem
from dpbandits.privacy.accounting._gaussian import gaussian_delta, gaussian_epsilon

_LARGEST_PURE_EPSILON = 10**300
_MOST_TIMES = 10**9


class Event(Protocol):
    """Something that was revealed, and what it costs one client."""

    @property
    def accountant(self) -> str:
        """By which theorem the figures hold."""

    @property
    def pure_epsilon(self) -> float:
        """An ε for which δ = 0; infinite if there is none."""

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) with lower ≤ δ(ε) ≤ upper."""

    def delta(self, epsilon: float) -> float:
        """A δ for which the event is (ε, δ)-private."""

    def epsilon(self, delta: float) -> float:
        """An ε for which the event is (ε, δ)-private."""

    def repeated(self, times: int) -> Event:
        """The same again, `times` times in all, with noise of its own each time."""

    def group(self, size: int) -> Event:
        """For `size` clients replaced together."""


@dataclass(frozen=True, kw_only=True)
class GaussianEvent:
    """Gaussian noise of `noise_ratio` times the ℓ2 sensitivity."""

    noise_ratio: float
    accountant = "analytic Gaussian"
    pure_epsilon = math.inf

    def __post_init__(self) -> None:
        positive(noise_ratio=self.noise_ratio)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Both the exact value."""
        delta = self.delta(epsilon)
        return delta, delta

    def delta(self, epsilon: float) -> float:
        """Exact."""
        return gaussian_delta(non_negative(epsilon=epsilon), self.noise_ratio)

    def epsilon(self, delta: float) -> float:
        """The least."""
        return math.inf if delta == 0 else gaussian_epsilon(probability(delta=delta), self.noise_ratio)

    def repeated(self, times: int) -> GaussianEvent:
        """Gaussian mechanisms compose to one whose squared ratios add up inversely."""
        return replace(self, noise_ratio=self.noise_ratio / math.sqrt(whole(1, _MOST_TIMES, times=times)))

    def group(self, size: int) -> GaussianEvent:
        """The sensitivity grows with the number of clients."""
        return replace(self, noise_ratio=self.noise_ratio / whole(1, _MOST_TIMES, size=size))


@dataclass(frozen=True, kw_only=True)
class PureEvent:
    """Something of which only pure ε-privacy is known."""

    pure_epsilon: float
    accountant = "pure, by the mechanism's definition"

    def __post_init__(self) -> None:
        non_negative(pure_epsilon=self.pure_epsilon)

    @staticmethod
    def ratio(shift: float, scale: float) -> PureEvent | NothingHidden:
        """ε = shift/scale, rounded up."""
        exact = Fraction(shift) / Fraction(scale)
        if exact > _LARGEST_PURE_EPSILON:
            return NothingHidden()
        rounded = float(exact)
        return PureEvent(pure_epsilon=rounded if rounded >= exact else math.nextafter(rounded, math.inf))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Below ε, no ε-private mechanism has more than randomized response has."""
        return 0.0, self.delta(epsilon)

    def delta(self, epsilon: float) -> float:
        """(e^ε₀ − e^ε)/(1 + e^ε₀) for ε < ε₀ (Kairouz, Oh and Viswanath 2015), else 0."""
        shortfall = non_negative(epsilon=epsilon) - self.pure_epsilon
        return 0.0 if shortfall >= 0 else -math.expm1(shortfall) / (1 + math.exp(-self.pure_epsilon))

    def epsilon(self, delta: float) -> float:
        """The inverse of δ(ε)."""
        if delta == 0:
            return self.pure_epsilon
        # e^ε = e^ε₀ − δ(1 + e^ε₀)
        left = 1 - probability(delta=delta) * (1 + math.exp(-self.pure_epsilon))
        return max(0.0, self.pure_epsilon + math.log(left)) if left > 0 else 0.0

    def repeated(self, times: int) -> PureEvent:
        """Pure privacy adds up."""
        return replace(self, pure_epsilon=self.pure_epsilon * whole(1, _MOST_TIMES, times=times))

    def group(self, size: int) -> PureEvent:
        """Pure privacy adds up over clients too."""
        return replace(self, pure_epsilon=self.pure_epsilon * whole(1, _MOST_TIMES, size=size))


@dataclass(frozen=True, kw_only=True)
class NothingHidden:
    """The data themselves."""

    accountant = "none"
    pure_epsilon = math.inf

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:  # noqa: ARG002
        """Nothing is hidden at any ε."""
        return 1.0, 1.0

    def delta(self, epsilon: float) -> float:  # noqa: ARG002
        """Nothing is hidden at any ε."""
        return 1.0

    def epsilon(self, delta: float) -> float:  # noqa: ARG002
        """No ε will do."""
        return math.inf

    def repeated(self, times: int) -> NothingHidden:  # noqa: ARG002
        """No worse."""
        return self

    def group(self, size: int) -> NothingHidden:  # noqa: ARG002
        """No worse."""
        return self


def replace_one_from_add_remove(epsilon: float, delta: float) -> tuple[float, float]:
    """If adding or removing a client is (ε, δ)-private, replacing one is (2ε, (1 + e^ε)δ)-private.

    A replacement is a removal followed by an addition.
    """
    return 2 * non_negative(epsilon=epsilon), (1 + math.exp(epsilon)) * non_negative(delta=delta)


def add_remove_from_replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Refused: a cohort's size is public here, and one client more or less shows in it."""
    raise OutsideTheorem(
        f"neighbouring: got replace-one at ({epsilon:g}, {delta:g}), expected a guarantee that was proved "
        "for add-remove: participation itself is not hidden, so no statement of that kind follows"
    )
