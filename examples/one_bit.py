"""A new privatizer in one short file: each client sends one bit about one of its averages, chosen at random.

A client has s averages and picks one of them uniformly, independently of their values. Let y ∈ [−B, B] be
that average. The client sends +1 with probability ½ + y/(2Bc) and −1 otherwise, where
c = (e^ε + 1)/(e^ε − 1). Example: for ε = 1 and B = 1, c = 2.16, and y = 0.5 sends +1 with probability 0.62.

Privacy: both probabilities lie between ½ − 1/(2c) = 1/(e^ε + 1) and ½ + 1/(2c) = e^ε/(e^ε + 1). So for any
two clients the probabilities of the same (place, sign) differ by a factor of at most e^ε. This is ε-local
privacy, with δ = 0, for any number of averages.

Unbiasedness: E[s·B·c·sign·1(place = j)] = s·B·c·(1/s)·y_j/(Bc) = y_j. Each such term has absolute value at
most s·B·c and variance at most s·(Bc)². Bernstein's inequality bounds their mean over the clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidValue
from dpbandits.privacy import Mechanism, Message, NoiseSource, Payload, register
from dpbandits.privacy.accounting import PureEvent
from dpbandits.privacy.tails import squared_norms, sub_gaussian_radius

FloatArray = NDArray[np.float64]


@register
@dataclass(frozen=True, kw_only=True)
class OneBit(Mechanism):
    """The randomizer sends one random sign, the shuffler does nothing, the analyzer scales the mean."""

    coordinates: int
    cohort: int
    bound: float
    epsilon: float
    kind: str = "one-bit"

    trust = "local"
    unit = "bits"
    needs = "the client's own device adds the noise; the server and all other clients may collude"
    pure = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.epsilon < math.inf:
            raise InvalidValue("epsilon", self.epsilon, "a finite number > 0")

    @classmethod
    def calibrated(cls, request: Any, *, coordinates: int, cohort: int, bound: float, least: int) -> OneBit:  # noqa: ARG003
        """Return the mechanism for the requested ε; there is nothing else to calibrate."""
        return cls(coordinates=coordinates, cohort=cohort, bound=bound, epsilon=request.epsilon)

    @property
    def stretch(self) -> float:
        """c for a slightly smaller ε, so that rounding cannot push a probability beyond its limits."""
        return 1 / math.tanh(self.epsilon * (1 - 1e-12) / 2)

    @property
    def message_size(self) -> int:
        """The number of bits of one message: the index of the average, and the sign."""
        return math.ceil(math.log2(self.coordinates)) + 1

    @property
    def event(self) -> PureEvent:
        """The privacy cost of one message."""
        return PureEvent(pure_epsilon=self.epsilon)

    @cached_property
    def message(self) -> Message:
        """The admitted messages: a sign in one place and zeros elsewhere, so Σ(2x)² ≤ 4."""
        return Message(kind="integers", shape=(self.coordinates,), low=-1, high=1, largest_square=4)

    @property
    def unit_of_message(self) -> float:
        """The value of one sign in the sum."""
        return self.coordinates * self.bound * self.stretch

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        first = np.zeros(clipped.shape, dtype=np.uint8)
        first[:, 0] = 1
        place = noise.permute_rows(first).astype(np.int64)  # a one in a uniformly random column
        chosen = (clipped * place).sum(axis=1, keepdims=True)
        sign = 2 * noise.bernoulli(0.5 + chosen / (2 * self.bound * self.stretch)) - 1
        return sign * place

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        return self._simulated_mean(batch.sum(axis=0), reports, noise)

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        total: Payload = self._randomize(clipped, noise).sum(axis=0)
        return total

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return np.asarray(self.unit_of_message * total / reports, dtype=np.float64)

    def error_deviation(self, reports: int) -> float:
        """Upper bound on the standard deviation of the error of each mean: √(s/n)·B·c."""
        return math.sqrt(self.coordinates / reports) * self.bound * self.stretch

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Confidence width: half of the failure probability is for other errors, half for Bernstein."""
        level = math.log(2 / confidence)
        spread = np.sqrt(2 * level * squared_norms(coefficients)) * self.error_deviation(reports)
        largest = np.abs(coefficients).max(axis=1) * 2 * self.coordinates * self.bound * self.stretch
        return sub_gaussian_radius(other_variance, confidence / 2) + spread + largest * level / (3 * reports)
