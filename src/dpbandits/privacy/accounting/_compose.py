"""What several events about the same client cost together, each with noise of its own.

Events of one kind compose to one event of that kind. Events of different kinds are grouped: sums of integers
are accounted for exactly, Gaussians and balls are one Gaussian, and pure events are one pure event. Groups
are combined by upper bounds (docs/accounting-proofs.md, section 14).
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
from dpbandits.privacy.accounting._dominating_pair import Dots, dots_of, flipped
from dpbandits.privacy.accounting._event import Event, GaussianEvent, NothingHidden, PureEvent
from dpbandits.privacy.accounting._integer_sum import Composition, IntegerSum, has_too_many_patterns
from dpbandits.privacy.accounting._least_argument import least_epsilon
from dpbandits.privacy.accounting._wide_gaussian import rounded_delta, rounded_epsilon

# From this variance on a discrete Gaussian is taken for a rounded Gaussian where there are others: smoothing
# takes four levels² of it.
_WIDE = 64.0


@dataclass(frozen=True, kw_only=True)
class GaussianComposition:
    """Gaussian noise, discrete in a ball or continuous, in several releases: one Gaussian, up to a factor."""

    parts: tuple[GaussianEvent | BallSum, ...]

    accountant = BallSum.accountant
    pure_epsilon = math.inf

    @cached_property
    def noise_ratio(self) -> float:
        """Inverse squared ratios add up."""
        return 1 / math.sqrt(math.fsum((1 / part.noise_ratio) ** 2 for part in self.parts))

    @cached_property
    def slack(self) -> float:
        """The factors of all releases multiply, so their logarithms add up."""
        return math.fsum(part.slack for part in self.parts if isinstance(part, BallSum))

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Below: what clients reach in the balls, or what the continuous ones give away."""
        upper = self.delta(epsilon)
        balls = [part.axis for part in self.parts if isinstance(part, BallSum)]
        axes = tuple(axis for axis in balls if axis is not None)
        lower = Composition(sums=axes).delta_bounds(epsilon)[0] if axes else 0.0
        continuous = tuple(part for part in self.parts if isinstance(part, GaussianEvent))
        if continuous:
            lower = max(lower, GaussianComposition(parts=continuous).delta(epsilon))
        return min(lower, upper), upper

    def delta(self, epsilon: float) -> float:
        """e^h·δ(ε − 2h) of the continuous law."""
        return rounded_delta(non_negative(epsilon=epsilon), self.noise_ratio, self.slack)

    def epsilon(self, delta: float) -> float:
        """The inverse of δ(ε)."""
        return math.inf if delta == 0 else rounded_epsilon(delta, self.noise_ratio, self.slack)

    def repeated(self, times: int) -> GaussianComposition:
        """Every part of it."""
        return GaussianComposition(parts=tuple(part.repeated(times) for part in self.parts))

    def group(self, size: int) -> GaussianComposition:
        """Every part of it."""
        return GaussianComposition(parts=tuple(part.group(size) for part in self.parts))


_CLOSED_FORMS = (GaussianEvent, BallSum, GaussianComposition, PureEvent)
_FEW_EVALUATIONS = 4


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Events of different kinds; δ(ε) is an upper bound, and the largest lower bound of a part is one."""

    parts: tuple[Event, ...]

    @property
    def accountant(self) -> str:
        """Those of the parts."""
        return "composition of " + " and ".join(dict.fromkeys(part.accountant for part in self.parts))

    @property
    def pure_epsilon(self) -> float:
        """Pure privacy adds up."""
        return _sum_up(part.pure_epsilon for part in self.parts)

    @cached_property
    def _dots(self) -> list[Dots]:
        """Of all parts but the last."""
        return [dots_of(part) for part in self.parts[:-1]]

    @cached_property
    def _dots_of_last(self) -> Dots | None:
        """Of the last part, if it would be evaluated too often to be evaluated exactly."""
        often = math.prod(len(dots.losses) for dots in self._dots) > _FEW_EVALUATIONS
        return dots_of(self.parts[-1]) if often and not isinstance(self.parts[-1], _CLOSED_FORMS) else None

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Seeing all parts is no less than seeing one of them."""
        upper = self.delta(epsilon)
        return min(max(part.delta_bounds(epsilon)[0] for part in self.parts), upper), upper

    def delta(self, epsilon: float) -> float:
        """The mean, over the losses of all parts but the last, of what the last one costs then."""
        if non_negative(epsilon=epsilon) >= self.pure_epsilon:
            return 0.0
        return min(1.0, self._of_parts(0, min(epsilon, 1e300)) * (1 + 1e-9))

    def _of_parts(self, first: int, epsilon: float) -> float:
        """The divergence at e^ε of the parts from the one of number `first` on, for any real ε."""
        if first == len(self._dots):
            if self._dots_of_last is not None:
                return self._dots_of_last.divergence(epsilon)
            last = self.parts[-1].delta(abs(epsilon))
            return last if epsilon >= 0 else flipped(-epsilon, last)
        dots = self._dots[first]
        means = zip(dots.losses, dots.masses, strict=True)
        return dots.infinite + math.fsum(
            mass * self._of_parts(first + 1, epsilon - loss) for loss, mass in means if mass
        )

    def epsilon(self, delta: float) -> float:
        """An ε for which all together are (ε, δ)-private, within 10⁻⁶ of the least that is shown."""
        if delta == 0:
            return self.pure_epsilon
        return least_epsilon(self.delta, probability(delta=delta), self.pure_epsilon)

    def repeated(self, times: int) -> Event:
        """Every part of it."""
        return Mixed(parts=tuple(part.repeated(times) for part in self.parts))

    def group(self, size: int) -> Event:
        """Every part of it."""
        return Mixed(parts=tuple(part.group(size) for part in self.parts))


def _sum_up(epsilons: Iterable[float]) -> float:
    """Rounded up."""
    return math.fsum(epsilons) * (1 + 1e-15)


def compose(events: Sequence[Event]) -> Event:
    """What all events together cost a client that was in each of them."""
    if not events:
        raise NotAvailable("events: got none, expected at least one")
    if len(events) == 1:
        return events[0]
    parts, distance = _flattened(events)
    if distance >= 1 or any(isinstance(part, NothingHidden) for part in parts):
        return NothingHidden()
    groups = _grouped(parts)
    composed = groups[0] if len(groups) == 1 else Mixed(parts=tuple(groups))
    return Approximated(event=composed, distance=distance) if distance else composed


def _flattened(events: Sequence[Event]) -> tuple[list[Event], float]:
    """The events that are no compositions, and the sum of all total-variation distances."""
    parts: list[Event] = []
    distance = 0.0
    for event in events:
        inside: Sequence[Event] = ()
        if isinstance(event, Approximated):
            inside = (event.event,)
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
    """One event for each kind, and those of unknown kinds as they are."""
    sums = [part for part in parts if isinstance(part, IntegerSum)]
    gaussians = [part for part in parts if isinstance(part, GaussianEvent | BallSum)]
    pure = [part.pure_epsilon for part in parts if isinstance(part, PureEvent)]
    if gaussians:
        gaussians += [_as_ball(one) for one in sums if _is_nearly_gaussian(one)]
        sums = [one for one in sums if not _is_nearly_gaussian(one)]
    known = IntegerSum | GaussianEvent | BallSum | PureEvent
    # The last part is evaluated most often: Gaussians are the quickest.
    groups: list[Event] = [part for part in parts if not isinstance(part, known)]
    if pure:
        groups.append(PureEvent(pure_epsilon=pure[0] if len(pure) == 1 else _sum_up(pure)))
    if has_too_many_patterns(sums):
        groups += sums
    elif sums:
        groups.append(sums[0] if len(sums) == 1 else Composition(sums=tuple(sums)))
    if gaussians:
        groups.append(_one_gaussian(gaussians))
    return groups


def _one_gaussian(parts: Sequence[GaussianEvent | BallSum]) -> Event:
    composed = GaussianComposition(parts=tuple(parts))
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, GaussianEvent) for part in parts):
        return GaussianEvent(noise_ratio=composed.noise_ratio)
    return composed


def _is_nearly_gaussian(one: IntegerSum) -> bool:
    ends = one.encoded_ends
    fixed = len(ends.low) == len(ends.high) == 1
    return (
        fixed
        and isinstance(one.noise, DiscreteGaussian)
        and one.noise.nearly_one
        and one.noise.variance > _WIDE
    )


def _as_ball(one: IntegerSum) -> BallSum:
    """Opposite corners of a box differ by `span` in every coordinate: a release along an axis each."""
    assert isinstance(one.noise, DiscreteGaussian)
    return BallSum(
        scale=one.noise.scale,
        shares=one.noise.shares,
        coordinates=one.coordinates,
        distance=one.span * math.sqrt(one.coordinates) * (1 + 1e-15),
        reachable=one.span,
        releases=one.coordinates,
    )
