"""A trust model in one file: an enclave, which everybody trusts, adds the reports and the noise.

The server sees the noisy sum only. The noise is discrete Laplace noise, so δ = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.privacy import Mechanism, PrivacyRequest, TrustModel, register_trust
from dpbandits.privacy.accounting import discrete_laplace_scale
from dpbandits.privacy.trust import CentralLattice

LEVELS = 4096


@dataclass(frozen=True, kw_only=True)
class EnclaveSum(CentralLattice):
    """Clients round their averages to a grid; the enclave adds them up and adds the noise."""

    kind: str = "enclave-sum"

    trust = "enclave"


def calibrate(
    request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, shape: str, least: int
) -> Mechanism:
    """Return the mechanism for a request: one client moves each of the coordinates by LEVELS at most."""
    return EnclaveSum(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        levels=LEVELS,
        noise="laplace",
        scale=discrete_laplace_scale(request.epsilon, coordinates, LEVELS),
        shape=shape,
    )


ENCLAVE = register_trust(
    TrustModel(
        name="enclave",
        rests_on="the enclave is trusted: it shows no report to anybody, adds the noise and releases once",
        noise_by="server",
        view="release",
        mechanisms=(EnclaveSum,),
        calibrate=calibrate,
        noises=("laplace",),
        pure_noises=("laplace",),
        defaults={("tight", False): ("laplace",), ("tight", True): ("laplace",)},
    )
)
