"""The shuffle trust model: each client adds a share of the noise, and the server learns only the sum.

Clients send bits, which the third party permutes (_shuffled_bits.py), or integers, which it adds up
(_summed_shares.py). In both mechanisms the noise suffices if only `minimum_reports` clients report and
`silent_share` of them add no noise. On request the third party and the server each add all the noise instead
(_server_noise.py).
"""

from __future__ import annotations

import math

from dpbandits.privacy._calibration import calibrate, may_use_ball
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._trust_model import TrustModel
from dpbandits.privacy.trust._server_noise import SERVER_GAUSSIAN, ServerNoise, server_noise
from dpbandits.privacy.trust._shuffled_bits import ShuffledBits, algorithm_2, algorithm_4, shuffled_bits
from dpbandits.privacy.trust._summed_shares import SummedShares, summed_shares

# In per-action cohorts the noise is calibrated to the least number of reports, rounded down to this many
# leading binary digits. So eight calibrations serve all sizes between two powers of two, and the noise has at
# most an eighth more variance than needed.
_DIGITS = 4


def _calibrate(
    request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, shape: str, least: int
) -> Mechanism:
    if request.mechanism_noise == SERVER_GAUSSIAN:
        return server_noise(request, coordinates, cohort, bound, least, shape)
    if request.mechanism_noise != "binomial":
        return summed_shares(request, coordinates, cohort, bound, least, shape)
    if request.preset == "paper":
        return algorithm_2(request, coordinates=coordinates, cohort=cohort, bound=bound, least=least)
    return shuffled_bits(request, coordinates, cohort, bound, least)


def _calibrate_one_value(request: PrivacyRequest, *, cohort: int, bound: float) -> Mechanism:
    least = request.minimum_reports(cohort)
    if request.preset == "paper" and request.mechanism_noise == "binomial":
        return algorithm_4(request, cohort=cohort, bound=bound, least=least)
    # Noise that suffices for fewer reports also suffices for more of them.
    spare = max(0, least.bit_length() - _DIGITS)
    fewest, shape = least >> spare << spare, "ball" if may_use_ball(request) else "box"
    return calibrate(request, coordinates=1, cohort=cohort, bound=bound, shape=shape, minimum_reports=fewest)


def _typical_error(request: PrivacyRequest, on_sum: float, clients: int) -> float:
    if request.mechanism_noise == SERVER_GAUSSIAN:
        return math.sqrt(2) * on_sum / clients
    return on_sum / clients / math.sqrt((1 - request.silent_share) * request.minimum_share)


SHUFFLE = TrustModel(
    name="shuffle",
    rests_on="the shuffler reveals only the sum of all reports and does not collude with the server",
    noise_by="cohort",
    view="batch",
    mechanisms=(ShuffledBits, SummedShares, ServerNoise),
    calibrate=_calibrate,
    noises=("binomial", "skellam", "discrete-gaussian", "polya", SERVER_GAUSSIAN),
    pure_noises=("polya",),
    defaults={
        ("tight", False): ("discrete-gaussian", "polya"),
        ("tight", True): ("polya",),
        ("paper", False): ("binomial",),
    },
    ball_noises=("discrete-gaussian", SERVER_GAUSSIAN),
    sub_gaussian_noises=("binomial", "discrete-gaussian", SERVER_GAUSSIAN),
    laplace_noise="polya",
    server_noise=SERVER_GAUSSIAN,
    shuffler=True,
    calibrate_one_value=_calibrate_one_value,
    typical_error=_typical_error,
)
