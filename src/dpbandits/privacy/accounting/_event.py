"""Privacy events: the interface of everything that costs privacy, and its simplest implementations.

The neighbouring relation is always "one client replaced"; `group` replaces several clients at once. The
interface is:

    event.delta_bounds(ε)   (lower, upper), bounds on the true δ(ε)
    event.delta(ε)          the upper bound: the event is (ε, δ)-DP
    event.epsilon(δ)        the least ε found for which the event is (ε, δ)-DP; δ = 0 means pure privacy
    event.repeated(m)       the same release m times to the same client, with fresh noise each time
    event.group(k)          the same release for k clients replaced together
    compose(events)         different events about the same client

Example:

    GaussianEvent(noise_ratio=4.0).repeated(3).epsilon(1e-6)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

from dpbandits._checks import non_negative, positive, probability, whole
from dpbandits.errors import OutsideTheorem
from dpbandits.privacy.accounting._gaussian import gaussian_delta, gaussian_epsilon

# A larger ε counts as no privacy, so that ε fits into a float.
_LARGEST_PURE_EPSILON = 10**300
_MOST_TIMES = 10**9


class Event(Protocol):
    """Something that is revealed, and its privacy cost for one client."""

    @property
    def accountant(self) -> str:
        """The name of the theorem or method from which the figures follow."""

    @property
    def pure_epsilon(self) -> float:
        """An ε for which δ = 0, or infinity if there is none."""

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return bounds on δ(ε).

        Args:
            epsilon: The ε, at least 0.

        Returns:
            (lower, upper) with lower ≤ δ(ε) ≤ upper.
        """

    def delta(self, epsilon: float) -> float:
        """Return a δ for which the event is (ε, δ)-private.

        Args:
            epsilon: The ε, at least 0.

        Returns:
            The upper bound, between 0 and 1; it is 1 if nothing smaller is proved.
        """

    def epsilon(self, delta: float) -> float:
        """Return an ε for which the event is (ε, δ)-private.

        Args:
            delta: The δ, at least 0 and below 1.

        Returns:
            The least ε found, or infinity if none is found.
        """

    def repeated(self, times: int) -> Event:
        """Return the event of the same release several times, with independent noise each time.

        Args:
            times: The number of releases, at least 1.
        """

    def group(self, size: int) -> Event:
        """Return the event for several clients replaced together.

        Args:
            size: The number of clients, at least 1.
        """


@dataclass(frozen=True, kw_only=True)
class GaussianEvent:
    """Continuous Gaussian noise.

    Attributes:
        noise_ratio: The standard deviation of the noise divided by the ℓ2 sensitivity.
    """

    noise_ratio: float
    accountant = "analytic Gaussian"
    pure_epsilon = math.inf

    def __post_init__(self) -> None:
        positive(noise_ratio=self.noise_ratio)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return the exact value twice."""
        delta = self.delta(epsilon)
        return delta, delta

    def delta(self, epsilon: float) -> float:
        """Return the exact δ(ε)."""
        return gaussian_delta(non_negative(epsilon=epsilon), self.noise_ratio)

    def epsilon(self, delta: float) -> float:
        """Return the least ε, or infinity for δ = 0."""
        # Gaussian noise is never pure: no finite ε has δ = 0.
        return math.inf if delta == 0 else gaussian_epsilon(probability(delta=delta), self.noise_ratio)

    def repeated(self, times: int) -> GaussianEvent:
        """Return one Gaussian event: m equal releases together have the noise ratio ρ/√m."""
        return replace(self, noise_ratio=self.noise_ratio / math.sqrt(whole(1, _MOST_TIMES, times=times)))

    def group(self, size: int) -> GaussianEvent:
        """Return the event whose sensitivity is `size` times as large."""
        return replace(self, noise_ratio=self.noise_ratio / whole(1, _MOST_TIMES, size=size))


def rounded_up(exact: Fraction) -> float:
    """Return a pure ε, rounded up to the next float; infinity above 10³⁰⁰.

    The ε is computed in exact rational arithmetic, because a float that is rounded down would understate it.
    """
    if exact > _LARGEST_PURE_EPSILON:
        return math.inf
    rounded = float(exact)
    return rounded if rounded >= exact else math.nextafter(rounded, math.inf)


@dataclass(frozen=True, kw_only=True)
class PureEvent:
    """An event for which only pure ε-privacy is known.

    Attributes:
        pure_epsilon: The ε for which δ = 0.

    Example:
        >>> from dpbandits.privacy.accounting import PureEvent
        >>> event = PureEvent(pure_epsilon=1.0)
        >>> event.delta(1.0), round(event.delta(0.0), 3)
        (0.0, 0.462)
    """

    pure_epsilon: float
    accountant = "pure, by the mechanism's definition"

    def __post_init__(self) -> None:
        non_negative(pure_epsilon=self.pure_epsilon)

    @staticmethod
    def ratio(shift: float, scale: float) -> PureEvent | NothingHidden:
        """Return the event with ε = shift/scale, rounded up to the next float.

        Above 10³⁰⁰ the event counts as `NothingHidden`.

        Args:
            shift: The largest change of the released value by one client.
            scale: The scale of the noise.
        """
        epsilon = rounded_up(Fraction(shift) / Fraction(scale))
        return NothingHidden() if math.isinf(epsilon) else PureEvent(pure_epsilon=epsilon)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return 0 and `delta(epsilon)`. The lower bound is 0: nothing more is known."""
        return 0.0, self.delta(epsilon)

    def delta(self, epsilon: float) -> float:
        """Return the δ of randomized response, which is the largest of all ε₀-private mechanisms.

        It is (e^ε₀ − e^ε)/(1 + e^ε₀) for ε < ε₀ (Kairouz, Oh and Viswanath 2015), otherwise 0.
        """
        shortfall = non_negative(epsilon=epsilon) - self.pure_epsilon
        return 0.0 if shortfall >= 0 else -math.expm1(shortfall) / (1 + math.exp(-self.pure_epsilon))

    def epsilon(self, delta: float) -> float:
        """Return the inverse of `delta`."""
        if delta == 0:
            return self.pure_epsilon
        # Solve δ = (e^ε₀ − e^ε)/(1 + e^ε₀) for e^ε = e^ε₀ − δ(1 + e^ε₀), and divide by e^ε₀ so that a large
        # ε₀ does not overflow.
        left = 1 - probability(delta=delta) * (1 + math.exp(-self.pure_epsilon))
        return max(0.0, self.pure_epsilon + math.log(left)) if left > 0 else 0.0

    def repeated(self, times: int) -> PureEvent:
        """Return the sum: the ε of pure events add up."""
        return replace(self, pure_epsilon=self.pure_epsilon * whole(1, _MOST_TIMES, times=times))

    def group(self, size: int) -> PureEvent:
        """Return the event for several clients: pure ε add up over clients, too."""
        return replace(self, pure_epsilon=self.pure_epsilon * whole(1, _MOST_TIMES, size=size))


@dataclass(frozen=True, kw_only=True)
class NothingHidden:
    """The data are revealed without noise."""

    accountant = "none"
    pure_epsilon = math.inf

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:  # noqa: ARG002
        """Return 1 twice: nothing is hidden at any ε."""
        return 1.0, 1.0

    def delta(self, epsilon: float) -> float:  # noqa: ARG002
        """Return 1: nothing is hidden at any ε."""
        return 1.0

    def epsilon(self, delta: float) -> float:  # noqa: ARG002
        """Return infinity: no ε is large enough."""
        return math.inf

    def repeated(self, times: int) -> NothingHidden:  # noqa: ARG002
        """Return the event itself: repetition does not reveal more."""
        return self

    def group(self, size: int) -> NothingHidden:  # noqa: ARG002
        """Return the event itself: everything is revealed about a group, too."""
        return self


def replace_one_from_add_remove(epsilon: float, delta: float) -> tuple[float, float]:
    """Convert an add-remove guarantee to a replace-one guarantee.

    If adding or removing a client is (ε, δ)-private, then replacing one is (2ε, (1 + e^ε)δ)-private, because
    a replacement is a removal followed by an addition.

    Args:
        epsilon: The ε of the add-remove guarantee.
        delta: The δ of the add-remove guarantee.

    Returns:
        The ε and the δ of the replace-one guarantee.

    Raises:
        InvalidValue: If either is negative or not finite.
    """
    return 2 * non_negative(epsilon=epsilon), (1 + math.exp(epsilon)) * non_negative(delta=delta)


def add_remove_from_replace_one(epsilon: float, delta: float) -> tuple[float, float]:
    """Refuse to convert a replace-one guarantee to an add-remove guarantee.

    The size of a cohort is public in this library, and it changes when a client is added or removed.

    Args:
        epsilon: The ε of the replace-one guarantee.
        delta: The δ of the replace-one guarantee.

    Raises:
        OutsideTheorem: Always.
    """
    raise OutsideTheorem(
        f"neighbouring: got replace-one at ({epsilon:g}, {delta:g}), expected a guarantee that was proved "
        "for add-remove: participation itself is not hidden, so no statement of that kind follows"
    )
