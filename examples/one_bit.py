"""A new privatizer in one short file: each client sends one bit about one of its averages, chosen at random.

Of its s averages a client picks one uniformly, whatever they are. If that one is y ∈ [−B, B], it sends +1
with probability ½ + y/(2Bc) and else −1, where c = (e^ε + 1)/(e^ε − 1).

Private: both chances lie between ½ − 1/(2c) = 1/(e^ε + 1) and ½ + 1/(2c) = e^ε/(e^ε + 1), so for any two
clients the chances of the same (place, sign) differ by a factor e^ε at most. That is ε-local privacy, with δ
= 0, for any number of averages.

Right on average: E[s·B·c·sign·1(place = j)] = s·B·c·(1/s)·y_j/(Bc) = y_j. One such term has size s·B·c at
most and variance s·(Bc)² at most; Bernstein's inequality bounds their mean over the clients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbandits._checks import positive
from dpbandits.privacy import Mechanism, Message, NoiseSource, register
from dpbandits.privacy._mechanism import FloatArray, Payload
from dpbandits.privacy.accounting import PureEvent
from dpbandits.privacy.tails import squared_norms, sub_gaussian_radius


@register
@dataclass(frozen=True, kw_only=True)
class OneBit(Mechanism):
    """R picks one average and sends one randomized sign, S is the identity, A is a scaled mean."""

    support: int
    cohort: int
    bound: float
    epsilon: float
    kind: str = "one-bit"

    trust = "local"
    unit = "bits"
    needs = "nothing but the client's own device"
    pure = True

    def __post_init__(self) -> None:
        super().__post_init__()
        positive(epsilon=self.epsilon)

    @classmethod
    def calibrated(cls, request: Any, *, support: int, cohort: int, bound: float, least: int) -> OneBit:  # noqa: ARG003
        """Nothing to search for: ε is all there is."""
        return cls(support=support, cohort=cohort, bound=bound, epsilon=request.epsilon)

    @property
    def stretch(self) -> float:
        """c, of an ε a hair smaller, so that no rounding takes a chance beyond its limits."""
        return 1 / math.tanh(self.epsilon * (1 - 1e-12) / 2)

    @property
    def message_size(self) -> int:
        """Which average, and the sign."""
        return math.ceil(math.log2(self.support)) + 1

    @property
    def event(self) -> PureEvent:
        """What one message costs its client."""
        return PureEvent(pure_epsilon=self.epsilon)

    @cached_property
    def message(self) -> Message:
        """A sign in one place and zeros elsewhere: Σ(2x)² ≤ 4."""
        return Message(kind="integers", shape=(self.support,), low=-1, high=1, largest_square=4)

    @property
    def unit_of_message(self) -> float:
        """What one sign counts in the sum."""
        return self.support * self.bound * self.stretch

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        first = np.zeros(clipped.shape, dtype=np.uint8)
        first[:, 0] = 1
        place = noise.permute_rows(first).astype(np.int64)  # a one in a uniformly random place
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
        """√(s/n)·B·c."""
        return math.sqrt(self.support / reports) * self.bound * self.stretch

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Half of the chance to fail for the other errors, half for Bernstein's inequality."""
        level = math.log(2 / confidence)
        spread = np.sqrt(2 * level * squared_norms(coefficients)) * self.error_deviation(reports)
        largest = np.abs(coefficients).max(axis=1) * 2 * self.support * self.bound * self.stretch
        return sub_gaussian_radius(other_variance, confidence / 2) + spread + largest * level / (3 * reports)
