"""Composition: the joint cost of several events about the same client, each with independent noise.

Events of one kind compose to one event of that kind. Events of different kinds are first grouped: integer
sums are accounted for exactly, Gaussians and balls become one Gaussian, and pure events become one pure
event. The groups are then combined by upper bounds (docs/accounting-proofs.md, section 14).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dpbandits._checks import non_negative, probability
from dpbandits.errors import NotAvailable
from dpbandits.privacy.accounting._approximate import Approximated
from dpbandits.privacy.accounting._ball import BallSum
from dpbandits.privacy.accounting._discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting._dominating_pair import DominatingPair, dominating_pair, reversed_divergence
from dpbandits.privacy.accounting._event import Event, GaussianEvent, NothingHidden, PureEvent
from dpbandits.privacy.accounting._integer_sum import Composition, IntegerSum, has_too_many_patterns
from dpbandits.privacy.accounting._least_argument import least_epsilon
from dpbandits.privacy.accounting._wide_gaussian import rounded_delta, rounded_epsilon

# Above this variance (in levels²), and only if other Gaussians are present, a discrete Gaussian is treated as
# a rounded continuous Gaussian. The conversion costs four levels² of variance (`SMOOTHING`²).
_WIDE = 64.0


@dataclass(frozen=True, kw_only=True)
class GaussianComposition:
    """Several releases with Gaussian noise, continuous or discrete in a ball.

    Together they are one Gaussian mechanism, up to a factor e^h at every outcome, where h is the `slack`.

    Attributes:
        parts: The events that are composed.
    """

    parts: tuple[GaussianEvent | BallSum, ...]

    accountant = BallSum.accountant
    pure_epsilon = math.inf

    @cached_property
    def noise_ratio(self) -> float:
        """The ratio ρ of the equivalent Gaussian: 1/ρ² is the sum of the 1/ρᵢ² of the parts."""
        return 1 / math.sqrt(math.fsum((1 / part.noise_ratio) ** 2 for part in self.parts))

    @cached_property
    def slack(self) -> float:
        """h: the factors e^{hᵢ} of the parts multiply, so their logarithms add up."""
        return math.fsum(part.slack for part in self.parts if isinstance(part, BallSum))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return the larger of two lower bounds, and the upper bound.

        The first lower bound uses only the balls, for clients that differ along one axis. The second uses
        only the continuous Gaussians, which are exact.
        """
        upper = self.delta(epsilon)
        balls = [part.axis for part in self.parts if isinstance(part, BallSum)]
        # Clients that differ along one axis in each release form a product of one-coordinate sums, for which
        # the exact accountant gives a lower bound.
        axes = tuple(axis for axis in balls if axis is not None)
        lower = Composition(sums=axes).delta_bounds(epsilon)[0] if axes else 0.0
        continuous = tuple(part for part in self.parts if isinstance(part, GaussianEvent))
        if continuous:
            lower = max(lower, GaussianComposition(parts=continuous).delta(epsilon))
        return min(lower, upper), upper

    def delta(self, epsilon: float) -> float:
        """Return e^h·δ(ε − 2h), where δ is that of the continuous Gaussian."""
        return rounded_delta(non_negative(epsilon=epsilon), self.noise_ratio, self.slack)

    def epsilon(self, delta: float) -> float:
        """Return the inverse of `delta`."""
        return math.inf if delta == 0 else rounded_epsilon(delta, self.noise_ratio, self.slack)

    def repeated(self, times: int) -> GaussianComposition:
        """Return the composition in which every part is repeated."""
        return GaussianComposition(parts=tuple(part.repeated(times) for part in self.parts))

    def group(self, size: int) -> GaussianComposition:
        """Return the composition in which every part is for a group."""
        return GaussianComposition(parts=tuple(part.group(size) for part in self.parts))


# Events whose `delta` is a formula. They may be evaluated thousands of times; all others take up to a second
# each, so after a few evaluations it is faster to replace them by a discrete dominating pair.
_CLOSED_FORMS = (GaussianEvent, BallSum, GaussianComposition, PureEvent)
_FEW_EVALUATIONS = 4


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Events of different kinds about the same client.

    δ(ε) is an upper bound. The lower bound is the largest lower bound of a single part.

    Attributes:
        parts: The events, one per kind; the last is evaluated most often.
    """

    parts: tuple[Event, ...]

    @property
    def accountant(self) -> str:
        """The accountants of all parts."""
        return "composition of " + " and ".join(dict.fromkeys(part.accountant for part in self.parts))

    @property
    def pure_epsilon(self) -> float:
        """The sum over the parts."""
        return _sum_up(part.pure_epsilon for part in self.parts)

    @cached_property
    def _first_pairs(self) -> list[DominatingPair]:
        """Dominating pairs of all parts except the last."""
        return [dominating_pair(part) for part in self.parts[:-1]]

    @cached_property
    def _last_pair(self) -> DominatingPair | None:
        """A dominating pair of the last part, or None if the part itself is to be evaluated.

        The part itself gives a tighter bound. It is used if it has a closed form, or if it is evaluated only
        a few times.
        """
        last, evaluations = self.parts[-1], math.prod(len(pair.losses) for pair in self._first_pairs)
        itself = isinstance(last, _CLOSED_FORMS) or evaluations <= _FEW_EVALUATIONS
        return None if itself else dominating_pair(last)

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Return the largest lower bound of a part, and the upper bound.

        An observer of all parts learns at least as much as an observer of one part.
        """
        upper = self.delta(epsilon)
        return min(max(part.delta_bounds(epsilon)[0] for part in self.parts), upper), upper

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on δ(ε).

        It is the mean, over the privacy losses of all parts except the last, of the divergence that remains
        for the last part. The factor 1 + 10⁻⁹ covers rounding errors.
        """
        if non_negative(epsilon=epsilon) >= self.pure_epsilon:
            return 0.0
        return min(1.0, self._divergence_from(0, min(epsilon, 1e300)) * (1 + 1e-9))

    def _divergence_from(self, first: int, epsilon: float) -> float:
        """Return the divergence at e^ε, for any real ε, of the parts from index `first` on.

        With L the loss of part `first`, H_{e^ε}(P₁×P₂‖Q₁×Q₂) = P₁(L = ∞) + E_{P₁} H_{e^{ε−L}}(P₂‖Q₂). The
        recursion applies this once per part.
        """
        if first == len(self._first_pairs):
            if self._last_pair is not None:
                return self._last_pair.divergence(epsilon)
            # `delta` accepts ε ≥ 0 only; a negative ε follows from the reversed pair.
            last = self.parts[-1].delta(abs(epsilon))
            return last if epsilon >= 0 else reversed_divergence(-epsilon, last)
        pair = self._first_pairs[first]
        outcomes = zip(pair.losses, pair.masses, strict=True)
        return pair.infinite + math.fsum(
            mass * self._divergence_from(first + 1, epsilon - loss) for loss, mass in outcomes if mass
        )

    def epsilon(self, delta: float) -> float:
        """Return an ε for which all parts together are (ε, δ)-private, within 10⁻⁶ of the least proved."""
        if delta == 0:
            return self.pure_epsilon
        return least_epsilon(self.delta, probability(delta=delta), self.pure_epsilon)

    def repeated(self, times: int) -> Event:
        """Return the composition in which every part is repeated."""
        return Mixed(parts=tuple(part.repeated(times) for part in self.parts))

    def group(self, size: int) -> Event:
        """Return the composition in which every part is for a group."""
        return Mixed(parts=tuple(part.group(size) for part in self.parts))


def _sum_up(epsilons: Iterable[float]) -> float:
    """Return the sum, rounded up."""
    return math.fsum(epsilons) * (1 + 1e-15)


def compose(events: Sequence[Event]) -> Event:
    """Compose events about the same client.

    Args:
        events: The events, each with independent noise. Later data may depend on earlier results, but the
            noise and the encoding of each event must be fixed in advance.

    Returns:
        One event whose δ(ε) is an upper bound for all events together.

    Raises:
        NotAvailable: If there are no events.
    """
    if not events:
        raise NotAvailable("events: got none, expected at least one")
    if len(events) == 1:
        return events[0]
    # Flatten first, so that parts of nested compositions are grouped with others of their kind.
    parts, distance = _flattened(events)
    if distance >= 1 or any(isinstance(part, NothingHidden) for part in parts):
        return NothingHidden()
    groups = _grouped(parts)
    # The total-variation distance is applied once, outside: then δ grows by (1 + e^ε)·distance.
    composed = groups[0] if len(groups) == 1 else Mixed(parts=tuple(groups))
    return Approximated(event=composed, distance=distance) if distance else composed


def _flattened(events: Sequence[Event]) -> tuple[list[Event], float]:
    """Return the events inside nested compositions, and the sum of all total-variation distances."""
    parts: list[Event] = []
    distance = 0.0
    for event in events:
        inside: Sequence[Event] = ()
        if isinstance(event, Approximated):
            inside = (event.event,)
            # Distances of independent mechanisms add up: a union bound. The factor rounds the sum up.
            distance += event.distance * (1 + 1e-15)
        elif isinstance(event, Composition):
            inside = event.sums
        elif isinstance(event, GaussianComposition | Mixed):
            inside = event.parts
        if inside:
            found, added = _flattened(inside)
            parts += found
            distance += added
        else:
            parts.append(event)
    return parts, distance


def _grouped(parts: Sequence[Event]) -> list[Event]:
    """Return one event per known kind, and the events of unknown kinds unchanged."""
    sums = [part for part in parts if isinstance(part, IntegerSum)]
    gaussians = [part for part in parts if isinstance(part, GaussianEvent | BallSum)]
    pure = [part.pure_epsilon for part in parts if isinstance(part, PureEvent)]
    if gaussians:
        gaussians += [_as_ball(one) for one in sums if _is_nearly_gaussian(one)]
        sums = [one for one in sums if not _is_nearly_gaussian(one)]
    known = IntegerSum | GaussianEvent | BallSum | PureEvent
    # The last group is evaluated most often (see `Mixed`), so Gaussians, which are the fastest, come last.
    groups: list[Event] = [part for part in parts if not isinstance(part, known)]
    if pure:
        groups.append(PureEvent(pure_epsilon=pure[0] if len(pure) == 1 else _sum_up(pure)))
    # Exact composition of asymmetric sums tries every sign pattern, and their number is a product over the
    # sums. Beyond the work limit, compose them as separate events.
    if has_too_many_patterns(sums):
        groups += sums
    elif sums:
        groups.append(sums[0] if len(sums) == 1 else Composition(sums=tuple(sums)))
    if gaussians:
        groups.append(_one_gaussian(gaussians))
    return groups


def _one_gaussian(parts: Sequence[GaussianEvent | BallSum]) -> Event:
    """Return one event for all Gaussian parts."""
    composed = GaussianComposition(parts=tuple(parts))
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, GaussianEvent) for part in parts):
        return GaussianEvent(noise_ratio=composed.noise_ratio)
    return composed


def _is_nearly_gaussian(one: IntegerSum) -> bool:
    """Return whether the sum may be treated as a ball: wide discrete Gaussian noise, no rounding."""
    noise, ends = one.noise, one.encoded_ends
    wide = isinstance(noise, DiscreteGaussian) and noise.nearly_one and noise.variance > _WIDE
    return wide and len(ends.low) == len(ends.high) == 1


def _as_ball(one: IntegerSum) -> BallSum:
    """Return the sum as a ball event.

    Opposite corners of a box differ by `span` in each of s coordinates, that is by span·√s in ℓ2. For the
    lower bound, each coordinate counts as one release in which the clients differ by `span` along one axis.
    """
    assert isinstance(one.noise, DiscreteGaussian)
    return BallSum(
        scale=one.noise.scale,
        shares=one.noise.shares,
        coordinates=one.coordinates,
        distance=one.span * math.sqrt(one.coordinates) * (1 + 1e-15),
        reachable=one.span,
        releases=one.coordinates,
    )
