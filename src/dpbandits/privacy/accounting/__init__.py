"""What is spent: δ(ε) of every event, from above and below, and the least noise for a stated (ε, δ)."""

from dpbandits.privacy.accounting.approximate import Approximated
from dpbandits.privacy.accounting.ball import BallSum, least_ball_scale
from dpbandits.privacy.accounting.calibrate import (
    discrete_laplace_scale,
    least_binomial_bits,
    least_discrete_gaussian_sigma,
    least_discrete_laplace_scale,
    least_skellam_variance,
)
from dpbandits.privacy.accounting.compose import GaussianComposition, Mixed, compose
from dpbandits.privacy.accounting.discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting.encoding import Encoding, choose_encoding
from dpbandits.privacy.accounting.event import (
    Event,
    GaussianEvent,
    NothingHidden,
    PureEvent,
    add_remove_from_replace_one,
    replace_one_from_add_remove,
)
from dpbandits.privacy.accounting.gaussian import (
    classical_noise_ratio,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_noise_ratio,
)
from dpbandits.privacy.accounting.integer_sum import Composition, IntegerSum
from dpbandits.privacy.accounting.noise_pmf import Binomial, DiscreteLaplace
from dpbandits.privacy.accounting.pair import Ends
from dpbandits.privacy.accounting.skellam import Skellam
from dpbandits.privacy.accounting.worst import WorstOf

__all__ = [
    "Approximated",
    "BallSum",
    "Binomial",
    "Composition",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Encoding",
    "Ends",
    "Event",
    "GaussianComposition",
    "GaussianEvent",
    "IntegerSum",
    "Mixed",
    "NothingHidden",
    "PureEvent",
    "Skellam",
    "WorstOf",
    "add_remove_from_replace_one",
    "choose_encoding",
    "classical_noise_ratio",
    "compose",
    "discrete_laplace_scale",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise_ratio",
    "least_ball_scale",
    "least_binomial_bits",
    "least_discrete_gaussian_sigma",
    "least_discrete_laplace_scale",
    "least_skellam_variance",
    "replace_one_from_add_remove",
]
