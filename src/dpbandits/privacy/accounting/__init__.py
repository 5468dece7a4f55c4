"""Exact accounting of noisy integer sums: δ(ε) from above and below, and the least noise for it."""

from dpbandits.privacy.accounting.calibrate import (
    discrete_laplace_scale,
    least_binomial_bits,
    least_discrete_gaussian_sigma,
    least_skellam_variance,
)
from dpbandits.privacy.accounting.discrete_gaussian import DiscreteGaussian
from dpbandits.privacy.accounting.encoding import Encoding, choose_encoding
from dpbandits.privacy.accounting.gaussian import (
    classical_noise_ratio,
    gaussian_delta,
    gaussian_noise_ratio,
)
from dpbandits.privacy.accounting.integer_sum import Composition, IntegerSum
from dpbandits.privacy.accounting.noise_pmf import Binomial, DiscreteLaplace
from dpbandits.privacy.accounting.pair import Ends
from dpbandits.privacy.accounting.skellam import Skellam

__all__ = [
    "Binomial",
    "Composition",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Encoding",
    "Ends",
    "IntegerSum",
    "Skellam",
    "choose_encoding",
    "classical_noise_ratio",
    "discrete_laplace_scale",
    "gaussian_delta",
    "gaussian_noise_ratio",
    "least_binomial_bits",
    "least_discrete_gaussian_sigma",
    "least_skellam_variance",
]
