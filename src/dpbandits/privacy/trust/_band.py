"""`LocalBand`: a client with one number sends a random level that is likely to be near its own.

The client rounds its average to a level i in {0 … levels}. The possible reports are 0 … levels + width − 1.
Those from i to i + width − 1 are the band of i. The client draws each report of the band with the weight
`top_weight` and each other report with the weight `other_weight`. With one level and a band of width one this
is randomized response, with many levels the piecewise mechanism (Wang et al. 2019).

Privacy: the band has the same width for every i. So every report has the probability top_weight/total or
other_weight/total, and the ratio is at most e^ε, with δ = 0. The weights are integers and the draw is exact.

Error: the mean report is slope·i + constant, so A decodes without bias. Single errors are bounded, and their
variance is a quadratic polynomial in i (docs/accounting-proofs.md, section 16).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._lattice import Lattice
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.tails import BoundedErrors, Spread, SummedErrors, bounded_factors, bounded_radius
from dpbandits.privacy.trust._weights import LARGEST_EPSILON, checked_weights, pure_event, weights

_MOST_LEVELS, _MOST_WIDTH = 256, 2**12


@dataclass(frozen=True, kw_only=True)
class LocalBand(Mechanism):
    """R draws a report near the encoded value, S is the identity, and A decodes the mean report.

    Attributes:
        levels: The number of levels of the grid over [−bound, bound].
        width: The number of reports in a band.
        top_weight: The weight of each report in the band.
        other_weight: The weight of each other report.
    """

    cohort: int
    bound: float
    levels: int
    width: int
    top_weight: int
    other_weight: int
    coordinates: int = 1
    shape: str = "box"
    kind: str = "local-band"

    trust = "local"
    noise = "list"
    unit = "bits"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.coordinates != 1:
            raise InvalidValue("coordinates", self.coordinates, "1: a band is for one number")
        whole(1, _MOST_LEVELS, levels=self.levels)
        whole(1, _MOST_WIDTH, width=self.width)
        checked_weights(self.width, self.size, self.top_weight, self.other_weight)

    @classmethod
    def for_request(
        cls, request: PrivacyRequest, *, cohort: int, bound: float, shape: str = "box"
    ) -> LocalBand:
        """Return the band with the least variance for the requested ε. It has δ = 0.

        Args:
            request: The privacy request.
            cohort: The number of clients that are asked.
            bound: The average is clipped to [−bound, bound].
            shape: "box" or "ball", which is the same for one number.
        """
        levels, width = _best_band(request.epsilon)
        top, other = weights(request.epsilon, width, levels + width)
        return cls(
            cohort=cohort,
            bound=bound,
            levels=levels,
            width=width,
            top_weight=top,
            other_weight=other,
            shape=shape,
        )

    @property
    def size(self) -> int:
        """The number of possible reports."""
        return self.levels + self.width

    @cached_property
    def lattice(self) -> Lattice:
        """The grid over [−bound, bound]."""
        return Lattice(reach=self.bound, levels=self.levels)

    @property
    def event(self) -> accounting.Event:
        """Pure privacy with e^ε = top_weight/other_weight, rounded up."""
        return pure_event(self.top_weight, self.other_weight)

    @cached_property
    def message(self) -> Message:
        """One integer. A client can send every value in the range."""
        return Message(kind="integers", shape=(1,), low=0, high=self.size - 1)

    @property
    def message_size(self) -> int:
        """The number of bits of one report."""
        return (self.size - 1).bit_length()

    @cached_property
    def _moments(self) -> tuple[float, float, float]:
        return _band_moments(self.levels, self.width, self.top_weight / self.other_weight)

    @property
    def unit_of_message(self) -> float:
        """The value of one unit of a report: one level, divided by the slope of the mean report."""
        return self.lattice.step / self._moments[0]

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        start = self.lattice.encode(clipped, noise)
        within = self.width * self.top_weight
        drawn = noise.below(within + self.levels * self.other_weight, clipped.shape)
        # The reports outside the band, in order, are those below the start and then those above its end.
        outside = (drawn - within) // self.other_weight
        outside = np.where(outside < start, outside, outside + self.width)
        return np.where(drawn < within, start + drawn // self.top_weight, outside)

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        return self._simulated_mean(batch.sum(axis=0), reports, noise)

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        total: IntArray = self._randomize(clipped, noise).sum(axis=0)
        return total

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        slope, constant, _ = self._moments
        levels = (total / reports - constant) / slope
        return np.asarray(levels * self.lattice.step - self.bound, dtype=np.float64)

    @property
    def _errors(self) -> BoundedErrors:
        """The error of one report, in units of `unit_of_message`."""
        span = float(self.size - 1)  # given the average, the error is a report minus its mean
        return BoundedErrors(variance=self._moments[2], largest=span, span=span)

    def summed_errors(self, reports: int) -> SummedErrors:
        """Return the errors of single reports, which are bounded."""
        return SummedErrors(law=self._errors, count=reports, unit=self.unit_of_message / reports)

    def error_deviation(self, reports: int) -> float:
        """Return the largest standard deviation of the error, over all values that a client can have."""
        return self.unit_of_message * math.sqrt(self._moments[2] / reports)

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Return the radii of `Mechanism.error_radius`, from bounds on the error of one report."""
        lengths = np.abs(coefficients[:, 0]) * self.unit_of_message
        return bounded_radius(lengths, other_variance, confidence, errors=self._errors, count=reports)

    def radius_factors(self, spread: Spread, confidence: float, reports: int) -> tuple[float, float]:
        """Return the bounds of `Mechanism.radius_factors`."""
        longest = math.sqrt(spread.most) / self.error_deviation(reports) * self.unit_of_message
        return bounded_factors(confidence, errors=self._errors, count=reports, longest=longest)


def _band_moments(levels: int, width: int, ratio: float) -> tuple[float, float, float]:
    """Return slope and constant of the mean report, and an upper bound on the variance of a report's error.

    The error of a report includes the random rounding of the average: an average between two levels has the
    moments of a mixture of both levels.
    """
    size, total = levels + width, width * ratio + levels
    starts = np.arange(levels + 1)
    band = width * starts + width * (width - 1) / 2
    squares = width * starts**2 + starts * width * (width - 1) + width * (width - 1) * (2 * width - 1) / 6
    means = ((ratio - 1) * band + size * (size - 1) / 2) / total
    seconds = ((ratio - 1) * squares + size * (size - 1) * (2 * size - 1) / 6) / total
    slope = (ratio - 1) * width / total
    # Between two levels the mean and the second moment of the report are linear, so the variance is concave.
    parts = np.linspace(0, 1, 33)[:, None]
    second = (1 - parts) * seconds[:-1] + parts * seconds[1:]
    mean = (1 - parts) * means[:-1] + parts * means[1:]
    # On a grid of 32 parts the largest value is missed by at most slope²/64².
    return slope, float(means[0]), float((second - mean**2).max() + slope**2 / 64**2)


@lru_cache(maxsize=1024)
def _best_band(epsilon: float) -> tuple[int, int]:
    """Return the levels and the width with the least worst-case variance, relative to the grid's length."""
    ratio = math.exp(min(epsilon, LARGEST_EPSILON))

    def error(levels: int, width: int) -> float:
        slope, _, variance = _band_moments(levels, width, ratio)
        return variance / (slope * levels) ** 2

    candidates = [(1, 1)]
    for levels in (*range(2, 17), 24, 32, 48, 64, 128, 256):
        # The piecewise mechanism's band is levels/(e^(ε/2) − 1) wide.
        near = levels / math.expm1(min(epsilon, LARGEST_EPSILON) / 2)
        widths = {1, *(round(near * factor) for factor in (0.8, 0.9, 1.0, 1.1, 1.2))}
        candidates += [(levels, width) for width in sorted(widths) if 1 <= width <= _MOST_WIDTH]
    return min(candidates, key=lambda pair: error(*pair))
