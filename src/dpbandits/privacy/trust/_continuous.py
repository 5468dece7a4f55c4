"""What the paper's two Gaussian mechanisms share: noise in floating point, for simulations only."""

from __future__ import annotations

from dpbandits._checks import between
from dpbandits.privacy._limits import LARGEST, SMALLEST
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy.accounting import Event, GaussianEvent


class ContinuousGaussian(Mechanism):
    """Gaussian noise of `noise_ratio` times the ℓ2 distance that one client can move what is revealed."""

    noise_ratio: float

    noise = "gaussian"
    unit = "numbers"

    def __post_init__(self) -> None:
        super().__post_init__()
        between(SMALLEST, LARGEST, noise_ratio=self.noise_ratio)

    @property
    def event(self) -> Event:
        """Exact, at any ε."""
        return GaussianEvent(noise_ratio=self.noise_ratio)
