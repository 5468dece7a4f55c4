"""What the central and the local trust models have in common: one party adds all the noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import between
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._limits import LARGEST, SMALLEST
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Payload
from dpbandits.privacy._noisy_lattice import NoisyLattice
from dpbandits.privacy._scales import FINE, levels_and_scale
from dpbandits.privacy._trust_model import Calibrate, TrustModel
from dpbandits.privacy.noise import NoiseSource, simulated_only


@dataclass(frozen=True, kw_only=True)
class ContinuousGaussian(Mechanism):
    """The base class of mechanisms with continuous Gaussian noise, in floating point.

    Attributes:
        noise_ratio: The standard deviation of the noise, divided by the ℓ2 distance by which one client can
            move the value that the noise is added to.
    """

    coordinates: int
    cohort: int
    bound: float
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

    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        # The mean of n independent N(0, σ²) variables is one N(0, σ²/n) variable.
        added = simulated_only(noise).gaussian(self.error_deviation(reports), (self.coordinates,))
        return np.asarray(total / reports + added, dtype=np.float64)


def single_party(
    *,
    name: str,
    rests_on: str,
    noise_by: str,
    view: str,
    gaussian: type[ContinuousGaussian],
    lattice: type[NoisyLattice],
    rounded_values: Callable[[int], int],
    typical_error: Callable[[float, int], float],
    list_calibrate: Calibrate | None = None,
    list_mechanisms: tuple[type[Mechanism], ...] = (),
    ball_laws: tuple[str, ...] = (),
) -> TrustModel:
    """Return the trust model in which one party adds all the noise.

    Args:
        name: The name.
        rests_on: What the guarantee rests on.
        noise_by: Who adds the noise.
        view: What the untrusted party sees.
        gaussian: The mechanism with continuous Gaussian noise.
        lattice: The mechanism with integer noise.
        rounded_values: Returns the number of rounded values per draw of noise, for a cohort.
        typical_error: Returns the deviation of the mean, for the deviation of the sum and the number of
            clients.
        list_calibrate: Returns the mechanism for the noise "list"; None if the model does not have it.
        list_mechanisms: The classes of the mechanisms that `list_calibrate` returns.
        ball_laws: The pure noises for the ℓ2 ball.
    """
    lists = () if list_calibrate is None else ("list",)
    return TrustModel(
        name=name,
        rests_on=rests_on,
        noise_by=noise_by,
        view=view,
        mechanisms=(gaussian, lattice, *list_mechanisms),
        calibrate=_calibration(gaussian, lattice, rounded_values, list_calibrate),
        noises=("gaussian", "discrete-gaussian", "laplace", "k-norm", *lists, *ball_laws),
        pure_noises=("laplace", "k-norm", *lists, *ball_laws),
        simulated_noises=("gaussian",),
        defaults={
            ("tight", False): (*lists, "discrete-gaussian", "k-norm", "laplace", *ball_laws),
            ("tight", True): (*lists, "k-norm", "laplace", *ball_laws),
            ("paper", False): ("gaussian",),
            ("paper", True): ("laplace",),
        },
        ball_noises=("discrete-gaussian", *lists, *ball_laws),
        sub_gaussian_noises=("gaussian", "discrete-gaussian"),
        quick_noises=lists,
        laplace_noise="laplace",
        typical_error=lambda _request, on_sum, clients: typical_error(on_sum, clients),
    )


def _calibration(
    gaussian: type[ContinuousGaussian],
    lattice: type[NoisyLattice],
    rounded_values: Callable[[int], int],
    list_calibrate: Calibrate | None,
) -> Calibrate:
    """Return the function that calibrates these mechanisms; `single_party` describes the arguments."""

    def calibrate(
        request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, shape: str, least: int
    ) -> Mechanism:
        if list_calibrate is not None and request.mechanism_noise == "list":
            return list_calibrate(
                request, coordinates=coordinates, cohort=cohort, bound=bound, shape=shape, least=least
            )
        fields: dict[str, Any] = {"coordinates": coordinates, "cohort": cohort, "bound": bound}
        if request.mechanism_noise == "gaussian":
            return gaussian(**fields, noise_ratio=_noise_ratio(request))
        values = rounded_values(cohort)
        levels, scale = levels_and_scale(request, coordinates, values, shape=shape, shares=1, rounding=FINE)
        fields |= {"levels": levels, "noise": request.mechanism_noise, "scale": scale, "shape": shape}
        return lattice(**fields)

    return calibrate


def _noise_ratio(request: PrivacyRequest) -> float:
    """Return the standard deviation of Gaussian noise divided by the ℓ2 sensitivity.

    Preset paper uses the classical formula as printed, preset tight the least ratio that is proved.
    """
    if request.preset == "paper":
        return accounting.classical_noise_ratio(request.epsilon, request.delta)
    return accounting.gaussian_noise_ratio(request.epsilon, request.delta)
