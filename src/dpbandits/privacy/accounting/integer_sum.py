"""What it costs to reveal, per coordinate, a sum of encoded values plus integer noise.

Neighbouring = one client replaced. The other clients' values are given to the adversary, so what is
accounted is one client's encoded vector plus the noise. Coordinates are independent: the pair of
views is a product, and each factor is dominated by the pair of opposite ends of the box
(docs/accounting-proofs.md, sections 1 and 2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from itertools import product

from dpbandits.checks import non_negative, probability, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting.chernoff import NEGLIGIBLE, is_negligible
from dpbandits.privacy.accounting.discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting.gaussian import gaussian_log_delta
from dpbandits.privacy.accounting.lower import lower_delta
from dpbandits.privacy.accounting.noise_pmf import Binomial, DiscreteLaplace, Noise
from dpbandits.privacy.accounting.pair import Ends, Pair, swap_cost, worst_pair
from dpbandits.privacy.accounting.search import least
from dpbandits.privacy.accounting.skellam import Skellam
from dpbandits.privacy.accounting.upper import upper_deltas
from dpbandits.privacy.accounting.window import Split, plan_window

ACCOUNTANT = "exact sum of integers"
_LARGEST_LOG_TAIL = 320.0
_MOST_SPLITS = 20_000


@dataclass(frozen=True, kw_only=True)
class IntegerSum:
    """A release of `coordinates` noisy sums.

    Give `shift` when each coordinate is encoded on 0 … shift and a replaced client may move it from
    one end to the other; give `ends` when the box's ends are encoded otherwise. `noise` is the
    total noise on one coordinate.
    """

    noise: Noise
    coordinates: int
    shift: int | None = None
    ends: Ends | None = None

    accountant = ACCOUNTANT

    def __post_init__(self) -> None:
        if not isinstance(self.noise, Binomial | Skellam | DiscreteGaussian | DiscreteLaplace):
            raise InvalidValue("noise", self.noise, "a log-concave law of this package")
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
        """The same release `times` times to the same client, each with noise of its own."""
        return replace(self, coordinates=self.coordinates * whole(1, times=times))

    def group(self, size: int) -> IntegerSum:
        """The same release, for `size` clients replaced together (docs/accounting-proofs.md, section 9).

        Ends that are rounded are taken at the whole numbers outside them, which is on the safe side.
        """
        if whole(1, size=size) == 1:
            return self
        farthest = self.encoded_ends.high[-1][0] - self.encoded_ends.low[0][0]
        return replace(self, shift=size * farthest, ends=None)

    @property
    def exact_pure_epsilon(self) -> Fraction | None:
        """An ε for which δ = 0, if any: coordinates·shift/scale for discrete Laplace noise.

        Moving a discrete Laplace law by m changes the logarithm of any probability by at most
        m/scale.
        """
        if not isinstance(self.noise, DiscreteLaplace):
            return None
        farthest = self.encoded_ends.high[-1][0] - self.encoded_ends.low[0][0]
        return self.coordinates * farthest / Fraction(self.noise.scale)

    @property
    def pure_epsilon(self) -> float:
        """An ε for which δ = 0, rounded up; infinite if there is none."""
        return Composition(sums=(self,)).pure_epsilon

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) with lower ≤ δ(ε) ≤ upper."""
        return Composition(sums=(self,)).delta_bounds(epsilon)

    def delta(self, epsilon: float) -> float:
        """A δ for which the release is (ε, δ)-private: the upper bound."""
        return Composition(sums=(self,)).delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """An ε for which the release is (ε, δ)-private, within 10⁻⁶ of the least, or infinite."""
        return Composition(sums=(self,)).epsilon(delta)


@dataclass(frozen=True, kw_only=True)
class Composition:
    """Several releases about the same client, each with noise of its own, one after another."""

    sums: tuple[IntegerSum, ...]

    accountant = ACCOUNTANT

    def __post_init__(self) -> None:
        if not self.sums:
            raise InvalidValue("sums", self.sums, "at least one release")

    @property
    def pure_epsilon(self) -> float:
        """An ε for which δ = 0, rounded up; infinite if there is none."""
        exact = [one.exact_pure_epsilon for one in self.sums]
        if any(one is None for one in exact):
            return math.inf
        total = sum((one for one in exact if one is not None), Fraction(0))
        rounded = float(total)
        return rounded if Fraction(rounded) >= total else math.nextafter(rounded, math.inf)

    def repeated(self, times: int) -> Composition:
        """All of it `times` times, with noise of its own each time."""
        return Composition(sums=tuple(one.repeated(times) for one in self.sums))

    def group(self, size: int) -> Composition:
        """For `size` clients replaced together."""
        return Composition(sums=tuple(one.group(size) for one in self.sums))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) with lower ≤ δ(ε) ≤ upper."""
        return _bounds(self.sums, non_negative(epsilon=epsilon), True)

    def delta(self, epsilon: float) -> float:
        """A δ for which all releases together are (ε, δ)-private: the upper bound."""
        return _bounds(self.sums, non_negative(epsilon=epsilon), False)[1]

    def epsilon(self, delta: float) -> float:
        """An ε for which all together are (ε, δ)-private, within 10⁻⁶ of the least, or infinite."""
        pure = self.pure_epsilon
        if delta == 0:
            return pure
        target = math.log(probability(delta=delta))

        @cache
        def excess(epsilon: float) -> float:
            return math.log(max(self.delta(epsilon), 1e-300)) - target

        if excess(0.0) <= 0:
            return 0.0
        low, high = 0.0, min(1.0, pure)
        while excess(high) > 0:
            low, high = high, min(2 * high, pure)
            if high > 1e4 and pure > high:
                return math.inf
        return least(excess, low, high, lambda width, near: width <= 1e-6 * max(near, 1e-3))


@lru_cache(maxsize=8192)
def _bounds(sums: tuple[IntegerSum, ...], epsilon: float, both: bool) -> tuple[float, float]:
    """The bounds with the outcomes cut so far out that the cut does not show in them."""
    if epsilon >= Composition(sums=sums).pure_epsilon:
        return 0.0, 0.0
    log_tail = 45 - _guess_log_delta(sums, epsilon)
    while True:
        log_tail = min(log_tail, _LARGEST_LOG_TAIL)
        pairs, splits = _family(sums, log_tail)
        if len(splits) > 1 and is_negligible(pairs, splits, epsilon):
            return 0.0, NEGLIGIBLE
        window = plan_window(pairs, splits, epsilon)
        uppers = upper_deltas(pairs, splits, epsilon, window)
        upper = max(uppers)
        cut = max(pair.missing for pair in pairs) * sum(splits[0])
        cut += max(swap_cost(pairs, split, epsilon) for split in splits)
        if cut <= 1e-6 * upper or log_tail >= _LARGEST_LOG_TAIL:
            break
        log_tail *= 1.5
    # The lower bound may take any split; the worst for the upper bound is the one to take.
    worst = splits[uppers.index(upper)]
    if len(splits) > 1:  # below this the quick bound may answer, and δ must not seem to grow with ε
        upper = max(upper, NEGLIGIBLE)
    return (lower_delta(pairs, worst, epsilon, window) if both else 0.0), upper


def _guess_log_delta(sums: Sequence[IntegerSum], epsilon: float) -> float:
    """log δ(ε) if the noise were Gaussian: only to decide how far out to look."""
    ratio = math.fsum(s.coordinates * s.encoded_ends.distance**2 / max(s.noise.variance, 1e-9) for s in sums)
    return max(gaussian_log_delta(epsilon, 1 / math.sqrt(ratio)), -200.0)


def _family(sums: Sequence[IntegerSum], log_tail: float) -> tuple[list[Pair], list[Split]]:
    """The pairs and in which numbers they occur.

    With mirror-symmetric noise and ends, a coordinate's pair is the same whichever end comes first.
    Otherwise the number of coordinates in either direction matters, and every number is tried.
    """
    pairs: list[Pair] = []
    choices: list[list[Split]] = []
    for one in sums:
        ends = one.encoded_ends
        pairs.append(worst_pair(one.noise, ends.low, ends.high, log_tail))
        if one.noise.symmetric and ends.mirrored:
            choices.append([(one.coordinates,)])
        else:
            pairs.append(worst_pair(one.noise, ends.high, ends.low, log_tail))
            choices.append([(n, one.coordinates - n) for n in range(one.coordinates + 1)])
    number = math.prod(len(choice) for choice in choices)
    if number > _MOST_SPLITS:
        expected = f"at most {_MOST_SPLITS:,} sign patterns; symmetric noise has one"
        raise InvalidValue("coordinates", f"{number:,} sign patterns", expected)
    return pairs, [tuple(n for part in parts for n in part) for parts in product(*choices)]
