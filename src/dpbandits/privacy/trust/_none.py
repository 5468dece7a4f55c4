"""The trust model without privacy: the server sees every client's averages (DPE, the non-private DP-DPE)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PRESETS
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy._trust_model import TrustModel
from dpbandits.privacy.noise import NoiseSource


@dataclass(frozen=True, kw_only=True)
class NoPrivacy(Mechanism):
    """R and S are the identity, and A is the plain mean. Nothing is protected."""

    coordinates: int
    cohort: int
    bound: float
    kind: str = "none"

    noise = "none"
    trust = "none"
    unit = "numbers"

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:  # noqa: ARG002
        return clipped

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return np.asarray(batch.mean(axis=0))

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return np.asarray(total / reports, dtype=np.float64)

    @cached_property
    def message(self) -> Message:
        """The clipped averages."""
        return Message(kind="numbers", shape=(self.coordinates,), low=-self.bound, high=self.bound)

    def error_deviation(self, reports: int) -> float:  # noqa: ARG002
        """Return 0: the mean is exact."""
        return 0.0

    def noise_draws(self, count: int, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        """Return zeros: the mean is exact."""
        return np.zeros((count, self.coordinates))

    @property
    def event(self) -> accounting.Event:
        """The event without privacy: the mean can reveal everything."""
        return accounting.NothingHidden()


def _calibrate(request: Any, *, coordinates: int, cohort: int, bound: float, **_unused: Any) -> Mechanism:  # noqa: ARG001
    return NoPrivacy(coordinates=coordinates, cohort=cohort, bound=bound)


NONE = TrustModel(
    name="none",
    rests_on="everybody is trusted: the server sees every report without noise",
    noise_by="nobody",
    view="release",
    mechanisms=(NoPrivacy,),
    calibrate=_calibrate,
    defaults={(preset, pure): ("none",) for preset in PRESETS for pure in (False, True)},
)
