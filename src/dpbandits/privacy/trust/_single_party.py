"""What the central and the local model share: one party adds all the noise, on a grid or as floats."""

from __future__ import annotations

from dpbandits._checks import between
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._limits import LARGEST, SMALLEST
from dpbandits.privacy._mechanism import Mechanism

NOISES = ("gaussian", "discrete-gaussian", "laplace", "k-norm")
PURE = ("laplace", "k-norm")
SIMULATED = ("gaussian",)
DEFAULTS = {
    ("tight", False): "discrete-gaussian",
    ("tight", True): "k-norm",
    ("paper", False): "gaussian",
    ("paper", True): "laplace",
}


class ContinuousGaussian(Mechanism):
    """Gaussian noise of `noise_ratio` times the ℓ2 distance that one client can move what is revealed."""

    noise_ratio: float

    noise = "gaussian"
    unit = "numbers"
    simulated_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between(SMALLEST, LARGEST, noise_ratio=self.noise_ratio)

    @property
    def event(self) -> accounting.Event:
        """Exact, at any ε."""
        return accounting.GaussianEvent(noise_ratio=self.noise_ratio)


def noise_ratio(request: PrivacyRequest) -> float:
    """The deviation of Gaussian noise over the ℓ2 sensitivity: as printed, or the least."""
    formula = (
        accounting.classical_noise_ratio if request.preset == "paper" else accounting.gaussian_noise_ratio
    )
    return formula(request.epsilon, request.delta)
