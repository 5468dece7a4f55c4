"""`LocalList`: a client sends the index of a public direction that tends to be near its own vector.

The client clips its averages to a ball and scales them to w with |w| ≤ 1. It draws a random unit vector v
with mean w. It draws a seed, which defines a list of random directions (noise/_directions.py), and ranks the
list by the inner product with v. Then it draws one index: each of the `near` best with weight `top_weight`,
each other index with weight `other_weight`. Its report is the seed and the index, in one integer of 8 bytes.

Privacy: exactly `near` directions have the larger weight, for every v. So every pair (seed, index) has the
probability top_weight/total or other_weight/total, times that of the seed, for all data. The ratio is at most
top_weight/other_weight ≤ e^ε, with δ = 0. The weights are integers and the draw is exact. How v and the
ranking are computed does not matter, so floating point is harmless there.

Error: the server's estimate is the direction, divided by the mean alignment c (_list_shape.py). It is
unbiased, and no direction of the error has a variance above 1/(d·c²): docs/accounting-proofs.md, section 15.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload, Reach
from dpbandits.privacy.noise import NoiseSource, directions, simulated_only
from dpbandits.privacy.tails import BoundedErrors, Spread, bounded_factors, bounded_radius, squared_norms
from dpbandits.privacy.trust._list_shape import (
    LARGEST_SIZE,
    MOST_ENTRIES,
    Alignment,
    alignment,
    best_list,
    infinite_list_variance,
)
from dpbandits.privacy.trust._weights import LARGEST_EPSILON, checked_weights, pure_event, weights

SEED_BITS = 48
_AT_ONCE = MOST_ENTRIES  # coordinates of directions that are computed at once, to limit memory use
# Upper bound on the relative error of the mean alignment and of a direction in floating point.
_INACCURACY = 1e-9


@dataclass(frozen=True, kw_only=True)
class LocalList(Mechanism):
    """R chooses a direction from a list, S is the identity, and A averages the directions.

    Attributes:
        size: The length of the list, a power of two.
        near: How many directions have the larger weight.
        top_weight: The weight of each of the near directions.
        other_weight: The weight of each other direction.
    """

    coordinates: int
    cohort: int
    bound: float
    size: int
    near: int
    top_weight: int
    other_weight: int
    shape: str = "ball"
    kind: str = "local-list"

    trust = "local"
    noise = "list"
    unit = "bits"
    additive = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coordinates < 2:
            raise InvalidValue("coordinates", self.coordinates, "at least 2: directions need a plane")
        if whole(2, LARGEST_SIZE, size=self.size) & (self.size - 1):
            raise InvalidValue("size", self.size, "a power of two")
        whole(1, MOST_ENTRIES, size_times_coordinates=self.size * self.coordinates)
        checked_weights(self.near, self.size, self.top_weight, self.other_weight)

    @classmethod
    def for_request(
        cls, request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, shape: str
    ) -> LocalList:
        """Return the list with the least variance for the requested ε. It has δ = 0.

        Args:
            request: The privacy request.
            coordinates: The number of values in one report.
            cohort: The number of clients that are asked.
            bound: Each value is clipped to [−bound, bound], or each report to the ball of that radius.
            shape: "box" or "ball".
        """
        size, near = best_list(coordinates, math.exp(min(request.epsilon, LARGEST_EPSILON)))
        top, other = weights(request.epsilon, near, size)
        return cls(
            coordinates=coordinates,
            cohort=cohort,
            bound=bound,
            size=size,
            near=near,
            top_weight=top,
            other_weight=other,
            shape=shape,
        )

    @property
    def total_weight(self) -> int:
        """The sum of all weights."""
        return self.near * self.top_weight + (self.size - self.near) * self.other_weight

    @property
    def radius(self) -> float:
        """The radius of the ball that contains all clipped averages."""
        return self.bound if self.shape == "ball" else self.bound * math.sqrt(self.coordinates)

    @property
    def event(self) -> accounting.Event:
        """Pure privacy with e^ε = top_weight/other_weight, rounded up."""
        return pure_event(self.top_weight, self.other_weight)

    @cached_property
    def message(self) -> Message:
        """One integer, seed·size + index. A client can send every value in the range."""
        return Message(kind="integers", shape=(1,), low=0, high=self.size * 2**SEED_BITS - 1)

    @property
    def message_size(self) -> int:
        """The number of bits of the seed and the index."""
        return SEED_BITS + self.size.bit_length() - 1

    @cached_property
    def alignment(self) -> Alignment:
        """The moments of the inner product of the chosen direction with the client's vector."""
        return alignment(self.coordinates, self.size, self.near, self.top_weight / self.other_weight)

    def reach_of_one(self, reports: int, *, checked: bool = True) -> Reach:  # noqa: ARG002
        """Return how far one report can move the means: from one direction to the opposite one."""
        length = 2 * self.radius / (self.alignment.mean * whole(1, reports=reports))
        honest = 2 * self.radius / reports
        return Reach(mean=length, honest=2 * self.bound / reports, length=length, honest_length=honest)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        return np.concatenate([self._choose(block, noise) for block in self._blocks(clipped)])

    def _blocks(self, rows: Payload) -> Iterator[Payload]:
        """Yield the rows in blocks whose lists fit into memory."""
        most = max(1, _AT_ONCE // (self.size * self.coordinates))
        return (rows[start : start + most] for start in range(0, len(rows), most))

    def _listed(self, seeds: IntArray) -> FloatArray:
        """Return the whole list of each seed."""
        indices = np.arange(self.size, dtype=np.uint64)
        return directions(seeds[:, None].astype(np.uint64), indices[None], self.coordinates)

    def _choose(self, clipped: FloatArray, noise: NoiseSource) -> IntArray:
        """Return one report per row."""
        own = _unit_vectors(clipped / self.radius, noise)
        seeds = noise.below(2**SEED_BITS, (len(own),))
        scores = np.einsum("nkd,nd->nk", self._listed(seeds), own)
        ranked = np.argsort(-scores, axis=1, kind="stable")  # exactly `near` come first, even with ties
        drawn = noise.below(self.total_weight, (len(own),))
        beyond = drawn - self.near * self.top_weight
        places = np.where(beyond < 0, drawn // self.top_weight, self.near + beyond // self.other_weight)
        indices = np.take_along_axis(ranked, places[:, None], axis=1)
        return np.asarray(seeds[:, None] * self.size + indices, dtype=np.int64)

    def decoded(self, batch: Payload) -> FloatArray:
        """Return the direction that each report names, one row per report.

        Args:
            batch: One report per row.
        """
        seeds, indices = np.divmod(batch[:, 0].astype(np.uint64), np.uint64(self.size))
        return directions(seeds, indices, self.coordinates)

    def places(self, batch: Payload, unit: FloatArray) -> IntArray:
        """Return the place of each report's direction in its list.

        Only an audit needs it: it computes whole lists.

        Args:
            batch: One report per row.
            unit: The unit vector; a list is ranked by the inner product with it.
        """
        found = []
        for block in self._blocks(batch):
            seeds, indices = np.divmod(block[:, 0], self.size)
            scores = self._listed(seeds) @ unit
            found.append((scores > np.take_along_axis(scores, indices[:, None], axis=1)).sum(axis=1))
        return np.concatenate(found)

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        rows = max(1, _AT_ONCE // self.coordinates)
        blocks = [batch[start : start + rows] for start in range(0, len(batch), rows)]
        total = np.sum([self.decoded(block).sum(axis=0) for block in blocks], axis=0)
        return self._simulated_mean(total, reports, noise)

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        """Draw the sum of the chosen directions without lists.

        Given the inner product s with the client's vector v, the chosen direction is s·v + √(1 − s²)·p, where
        p is a uniform unit vector orthogonal to v. s is an order statistic: the tail probability of the i-th
        best of a list is Beta(i, size + 1 − i).
        """
        from scipy.special import betaincinv  # imported here, because clients run without SciPy

        rng = simulated_only(noise).generator
        own = _unit_vectors(clipped / self.radius, noise)
        weighty = rng.random(len(own)) * self.total_weight < self.near * self.top_weight
        places = np.where(
            weighty,
            rng.integers(1, self.near, len(own), endpoint=True),
            rng.integers(self.near + 1, self.size, len(own), endpoint=True),
        )
        tails = rng.beta(places, self.size + 1 - places)
        inner = np.sqrt(1 - betaincinv((self.coordinates - 1) / 2, 0.5, 2 * np.minimum(tails, 1 - tails)))
        inner = np.where(tails < 0.5, inner, -inner)[:, None]
        chosen = inner * own + np.sqrt(1 - inner**2) * _orthogonal(rng.standard_normal(own.shape), own)
        return np.asarray(chosen.sum(axis=0), dtype=np.float64)

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return np.asarray(total * (self.radius / (self.alignment.mean * reports)), dtype=np.float64)

    @property
    def above_least(self) -> float:
        """The total variance of a unit vector's report, divided by the least of any unbiased report.

        The least is that of PrivUnit with its best cap (Asi, Feldman and Talwar 2022).
        """
        least = infinite_list_variance(self.coordinates, math.log(self.top_weight / self.other_weight))
        return float((self.alignment.mean**-2 - 1) / least)

    @property
    def _variance(self) -> float:
        """An upper bound on the variance of one estimate in any direction, for a ball of radius one."""
        aligned = self.alignment
        return max(1 / self.coordinates, aligned.square - aligned.mean**2) / aligned.mean**2

    def error_deviation(self, reports: int) -> float:
        """Return an upper bound on the standard deviation of the error in any direction."""
        return self.radius * math.sqrt(self._variance / reports)

    @property
    def _errors(self) -> BoundedErrors:
        """The error of one report in the direction of a unit vector, for a ball of radius one."""
        length = 1 / self.alignment.mean
        return BoundedErrors(variance=self._variance, largest=1 + length, span=2 * length)

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Return the radii of `Mechanism.error_radius`, from bounds on the error of one report."""
        lengths = np.sqrt(squared_norms(coefficients)) * self.radius
        found = bounded_radius(lengths, other_variance, confidence, errors=self._errors, count=reports)
        return found + lengths * _INACCURACY

    def radius_factors(self, spread: Spread, confidence: float, reports: int) -> tuple[float, float]:
        """Return the bounds of `Mechanism.radius_factors`."""
        longest = math.sqrt(spread.most * reports / self._variance)  # |a|·radius/√V
        low, high = bounded_factors(confidence, errors=self._errors, count=reports, longest=longest)
        return low, high + _INACCURACY * longest


def _unit_vectors(inside: FloatArray, noise: NoiseSource) -> FloatArray:
    """Return random unit vectors whose means are the given rows, which lie in the unit ball.

    A vector is t·ŵ + √(1 − t²)·p, where ŵ is the direction of the row w, p is a uniform unit vector
    orthogonal to it, and t has mean |w| and mean square max(|w|², 1/d). So its variance is spread over all
    directions; a coin that decides between ŵ and −ŵ would put all of it along ŵ.
    """
    count, coordinates = inside.shape
    lengths = np.minimum(np.linalg.norm(inside, axis=1, keepdims=True), 1.0)
    first = np.eye(1, coordinates)  # any direction serves for a row of zeros
    toward = np.where(lengths > 0, inside / np.where(lengths > 0, lengths, 1), first)
    toward /= np.linalg.norm(toward, axis=1, keepdims=True)
    signs = 2 * noise.bernoulli(np.full((count, 1), 0.5)) - 1
    part = lengths + signs * np.sqrt(np.maximum(1 / coordinates - lengths**2, 0))
    aside = directions(
        noise.below(2**62, (count,)).astype(np.uint64), np.zeros(1, dtype=np.uint64), coordinates
    )
    return np.asarray(part * toward + np.sqrt(1 - part**2) * _orthogonal(aside, toward), dtype=np.float64)


def _orthogonal(rows: FloatArray, units: FloatArray) -> FloatArray:
    """Return the rows without their part along the given unit vectors, scaled to length one."""
    left = rows - np.einsum("nd,nd->n", rows, units)[:, None] * units
    lengths = np.maximum(np.linalg.norm(left, axis=1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(left / lengths, dtype=np.float64)
