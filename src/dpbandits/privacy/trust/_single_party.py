"""The noises that the central and the local trust model have in common: one party adds all of it."""

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
    """The base class of mechanisms with continuous Gaussian noise, in floating point.

    Attributes:
        noise_ratio: The standard deviation of the noise, divided by the ℓ2 distance by which one client can
            move the value that the noise is added to.
    """

    noise_ratio: float

    noise = "gaussian"
    unit = "numbers"
    simulated_only = True

    def __post_init__(self) -> None:
        super().__post_init__()
        between(SMALLEST, LARGEST, noise_ratio=self.noise_ratio)

    @property
    def event(self) -> accounting.Event:
        """The privacy cost of Gaussian noise, exact for every ε."""
        return accounting.GaussianEvent(noise_ratio=self.noise_ratio)


def noise_ratio(request: PrivacyRequest) -> float:
    """Return the standard deviation of Gaussian noise divided by the ℓ2 sensitivity.

    Preset paper uses the classical formula as printed, preset tight the least ratio that is proved.
    """
    formula = (
        accounting.classical_noise_ratio if request.preset == "paper" else accounting.gaussian_noise_ratio
    )
    return formula(request.epsilon, request.delta)
