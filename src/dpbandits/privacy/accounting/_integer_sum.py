"""The cost of revealing, per coordinate, a sum of encoded values plus integer noise.

The neighbouring relation is one client replaced. The adversary is given the values of all other clients, so
the account covers one client's encoded vector plus the noise. Coordinates are independent: the pair of views
is a product, and each factor is dominated by the pair of opposite ends of the box (docs/accounting-proofs.md,
sections 1 and 2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product

import numpy as np

from dpbandits._checks import non_negative, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting._chernoff import NEGLIGIBLE, is_negligible
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._event import rounded_up
from dpbandits.privacy.accounting._gaussian import gaussian_log_delta
from dpbandits.privacy.accounting._least_argument import least_epsilon
from dpbandits.privacy.accounting._lower_bound import lower_delta
from dpbandits.privacy.accounting._noise_pmf import Binomial, DiscreteLaplace, Noise
from dpbandits.privacy.accounting._skellam import Skellam
from dpbandits.privacy.accounting._upper_bound import upper_deltas
from dpbandits.privacy.accounting._wide_gaussian import wide_bounds
from dpbandits.privacy.accounting._window import SHORTEST, Split, plan_window
from dpbandits.privacy.accounting._work_limit import (
    MOST_OUTCOMES,
    MOST_POINTS,
    MOST_SPLITS,
    TooCostlyError,
    affordable,
    is_wide,
)
from dpbandits.privacy.accounting._worst_pair import Ends, Pair, swap_cost, worst_pair

# Outcomes are listed down to a tail of 2·e^{−320}, about 10⁻¹³⁹. The upper bound does not follow smaller δ.
_LARGEST_LOG_TAIL = 320.0
_LARGEST_EPSILON = 20_000.0


class _Released(ABC):
    """What one integer sum and a composition of several have in common."""

    accountant = "exact sum of integers"

    @abstractmethod
    def releases(self) -> tuple[IntegerSum, ...]:
        """Return the releases, at least one."""

    @property
    def pure_epsilon(self) -> float:
        """An ε for which δ = 0, rounded up: the sum of coordinates·shift/scale for discrete Laplace noise.

        A shift of a discrete Laplace distribution by m changes the logarithm of any probability by at most
        m/scale. For all other noise there is no such ε, and the value is infinite.
        """
        total = Fraction(0)
        for one in self.releases():
            if not isinstance(one.noise, DiscreteLaplace):
                return math.inf
            total += one.coordinates * one.span / Fraction(one.noise.scale)
        return rounded_up(total)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return (lower, upper) with lower ≤ δ(ε) ≤ upper."""
        return _bounds(self.releases(), non_negative(epsilon=epsilon), True)

    def delta(self, epsilon: float) -> float:
        """Return a δ for which all releases together are (ε, δ)-private: the upper bound.

        It is 1, never NaN, if nothing smaller is proved. The computation takes about a second at most: beyond
        the limits of `_work_limit.py`, the result is the δ of less noise, or 1.
        """
        return _bounds(self.releases(), non_negative(epsilon=epsilon), False)[1]

    def epsilon(self, delta: float) -> float:
        """Return an ε for which all releases together are (ε, δ)-private, or infinity.

        It is within 10⁻⁶ of the least.
        """
        pure = self.pure_epsilon
        return pure if delta == 0 else least_epsilon(self.delta, delta, pure)


@dataclass(frozen=True, kw_only=True)
class IntegerSum(_Released):
    """A release of several integer sums with independent noise.

    Attributes:
        noise: The total noise on one coordinate.
        coordinates: The number of sums.
        shift: Given if each coordinate is encoded on 0 … shift, so that a replaced client may change it from
            one end to the other.
        ends: Given instead of `shift` if the ends of the box are encoded in another way.

    Raises:
        InvalidValue: If the noise is not a distribution of this package, if a number is out of range, or if
            not exactly one of `shift` and `ends` is given.

    Example:
        >>> from dpbandits.privacy.accounting import Binomial, IntegerSum
        >>> event = IntegerSum(noise=Binomial(bits=1000), coordinates=1, shift=2)
        >>> f"{event.delta(0.5):.3g}"
        '1.52e-06'
    """

    noise: Noise
    coordinates: int
    shift: int | None = None
    ends: Ends | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Binomial | Skellam | DiscreteGaussian | DiscreteLaplace):
            expected = "a Binomial, Skellam, DiscreteGaussian or DiscreteLaplace distribution"
            raise InvalidValue("noise", self.noise, expected)
        whole(1, 10**9, coordinates=self.coordinates)
        if (self.shift is None) == (self.ends is None):
            raise InvalidValue("shift", self.shift, "exactly one of shift and ends")
        if self.shift is not None:
            whole(1, shift=self.shift)

    @cached_property
    def encoded_ends(self) -> Ends:
        """The encodings of the two ends of the box."""
        return self.ends if self.shift is None and self.ends is not None else Ends.whole(self.shift or 1)

    def repeated(self, times: int) -> IntegerSum:
        """Return the same release `times` times to the same client, with independent noise each time."""
        return replace(self, coordinates=self.coordinates * whole(1, times=times))

    def group(self, size: int) -> IntegerSum:
        """Return the event for `size` clients replaced together (docs/accounting-proofs.md, section 9).

        Rounded ends are replaced by the whole numbers outside them, which gives an upper bound.
        """
        if whole(1, size=size) == 1:
            return self
        return replace(self, shift=size * self.span, ends=None)

    @property
    def span(self) -> int:
        """The distance between the farthest encoded values."""
        return self.encoded_ends.high[-1][0] - self.encoded_ends.low[0][0]

    def releases(self) -> tuple[IntegerSum, ...]:
        """Return the release itself."""
        return (self,)


@dataclass(frozen=True, kw_only=True)
class Composition(_Released):
    """Several integer sums about the same client, released one after another with independent noise.

    Attributes:
        sums: The releases, at least one.
    """

    sums: tuple[IntegerSum, ...]

    def __post_init__(self) -> None:
        if not self.sums:
            raise InvalidValue("sums", self.sums, "at least one release")

    def releases(self) -> tuple[IntegerSum, ...]:
        """Return `sums`."""
        return self.sums

    def repeated(self, times: int) -> Composition:
        """Return all releases `times` times, with independent noise each time."""
        return Composition(sums=tuple(one.repeated(times) for one in self.sums))

    def group(self, size: int) -> Composition:
        """Return the event for `size` clients replaced together."""
        return Composition(sums=tuple(one.group(size) for one in self.sums))


@lru_cache(maxsize=8192)
def _bounds(sums: tuple[IntegerSum, ...], epsilon: float, both: bool) -> tuple[float, float]:
    """Return (lower, upper), or (0, 1) if the arithmetic fails or would take too long.

    δ(ε) never increases in ε, so the upper bound at `_LARGEST_EPSILON` holds for every larger ε.
    """
    if epsilon >= Composition(sums=sums).pure_epsilon:
        return 0.0, 0.0
    try:
        # Overflows and NaN are expected for extreme parameters; the checks below turn them into (0, 1).
        with np.errstate(all="ignore"):
            lower, upper = _computed(_merged(sums), min(epsilon, _LARGEST_EPSILON), both)
    except (TooCostlyError, ArithmeticError, ValueError, MemoryError):
        return 0.0, 1.0
    if not 0 <= upper <= 1:
        return 0.0, 1.0
    return (lower if 0 <= lower <= upper and epsilon <= _LARGEST_EPSILON else 0.0), upper


def _merged(sums: Sequence[IntegerSum]) -> list[IntegerSum]:
    """Merge releases of the same noise and ends into one release with more coordinates."""
    coordinates: dict[tuple[Noise, Ends], int] = {}
    for one in sums:
        key = one.noise, one.encoded_ends
        coordinates[key] = coordinates.get(key, 0) + one.coordinates
    return [IntegerSum(noise=n, ends=e, coordinates=count) for (n, e), count in coordinates.items()]


def _computed(sums: Sequence[IntegerSum], epsilon: float, both: bool) -> tuple[float, float]:
    """Return the bounds, with outcomes cut off so far out that the cut does not affect them."""
    # Start with outcomes down to e^{−45} of the expected δ. If the probability that is cut off is more than a
    # millionth of the result, repeat with a longer tail, while the work limit permits.
    log_tail = 45 - _guess_log_delta(sums, epsilon)
    if len(sums) == 1 and _has_closed_form(sums[0], log_tail):
        one = sums[0]
        assert isinstance(one.noise, DiscreteGaussian)
        return wide_bounds(one.noise, one.coordinates, one.span * math.sqrt(one.coordinates), epsilon)
    upper, spent = 1.0, 0.0
    while True:
        log_tail = min(log_tail, _LARGEST_LOG_TAIL)
        pairs, splits, exact = _family(sums, log_tail)
        if len(splits) > 1 and is_negligible(pairs, splits, epsilon):
            return 0.0, NEGLIGIBLE
        # Even the shortest window would exceed the limit, at one transform per split and four per pair.
        if (len(splits) + 4 * len(pairs)) << SHORTEST > MOST_POINTS:
            raise TooCostlyError
        window = plan_window(pairs, splits, epsilon)
        uppers = upper_deltas(pairs, splits, epsilon, window)
        upper = min(upper, max(uppers))
        cut = max(pair.missing for pair in pairs) * sum(splits[0])
        cut += max(swap_cost(pairs, split, epsilon) for split in splits)
        spent += 4 * sum(len(pair.log_p) for pair in pairs) + len(splits) * (window.length if window else 0)
        if cut <= 1e-6 * upper or log_tail >= _LARGEST_LOG_TAIL or spent > MOST_POINTS / 4:
            break
        log_tail *= 1.5
    # Any split gives a valid lower bound; the one with the largest upper bound gives the best.
    worst = splits[uppers.index(max(uppers))]
    if len(splits) > 1:  # is_negligible returns NEGLIGIBLE below this; δ must not increase in ε
        upper = max(upper, NEGLIGIBLE)
    return (lower_delta(pairs, worst, epsilon, window) if both and exact else 0.0), upper


def _has_closed_form(one: IntegerSum, log_tail: float) -> bool:
    """Return whether the release is a wide discrete Gaussian without rounding."""
    ends = one.encoded_ends
    return len(ends.low) == len(ends.high) == 1 and is_wide(one.noise, one.span, log_tail)


def _guess_log_delta(sums: Sequence[IntegerSum], epsilon: float) -> float:
    """Return log δ(ε) as if the noise were Gaussian; it only decides how far out outcomes are listed."""
    ratio = math.fsum(s.coordinates * s.encoded_ends.distance**2 / max(s.noise.variance, 1e-9) for s in sums)
    return max(gaussian_log_delta(epsilon, 1 / math.sqrt(max(ratio, 1e-250))), -200.0)


def _is_sided(one: IntegerSum) -> bool:
    """Return whether the pair depends on which end comes first."""
    return not (one.noise.symmetric and one.encoded_ends.mirrored)


def _patterns(sums: Sequence[IntegerSum]) -> int:
    """Return the number of sign patterns that can differ in δ."""
    return math.prod(one.coordinates + 1 for one in sums if _is_sided(one))


def has_too_many_patterns(sums: Sequence[IntegerSum]) -> bool:
    """Return whether exact composition would exceed the work limit."""
    merged = _merged(sums)
    return len(merged) > 1 and (_patterns(merged) + 8 * len(merged)) << SHORTEST > MOST_POINTS


def _family(sums: Sequence[IntegerSum], log_tail: float) -> tuple[list[Pair], list[Split], bool]:
    """Return the pairs, the splits, and whether all noise was kept as given.

    A split states how many coordinates follow each pair. If noise and ends are mirror-symmetric, a coordinate
    has the same pair whichever end comes first. Otherwise the number of coordinates per direction matters,
    and every number is tried.
    """
    sided = [_is_sided(one) for one in sums]
    if _patterns(sums) > MOST_SPLITS:
        raise TooCostlyError
    most = MOST_OUTCOMES // (len(sums) + sum(sided)) ** 2  # several pairs may take many iterations
    noises = [affordable(one.noise, one.span, log_tail, most) for one in sums]
    pairs: list[Pair] = []
    choices: list[list[Split]] = []
    for one, two_sided, noise in zip(sums, sided, noises, strict=True):
        ends = one.encoded_ends
        pairs.append(worst_pair(noise, ends.low, ends.high, log_tail))
        if two_sided:
            pairs.append(worst_pair(noise, ends.high, ends.low, log_tail))
            choices.append([(n, one.coordinates - n) for n in range(one.coordinates + 1)])
        else:
            choices.append([(one.coordinates,)])
    # Every combination of the choices for each release.
    splits = [tuple(n for part in parts for n in part) for parts in product(*choices)]
    return pairs, splits, noises == [one.noise for one in sums]
