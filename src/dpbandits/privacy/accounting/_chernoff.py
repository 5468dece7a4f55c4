"""A fast, rough upper bound on δ(ε), for the many sign patterns of asymmetric noise.

With L the privacy loss, δ(ε) = E_P (1 − e^{ε − L})₊ ≤ P(L > ε) ≤ E_P e^{t(L − ε)} for every t > 0. The last
expectation is a product over coordinates. If this bound is negligible, the slower exact bound is not needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from dpbandits.privacy.accounting._window import Split
from dpbandits.privacy.accounting._worst_pair import Pair, swap_cost

NEGLIGIBLE = 1e-60
# The values of t that are tried. Each is valid; more values would only make the bound tighter.
_EXPONENTS = 2.0 ** np.arange(-2, 10)


def is_negligible(pairs: Sequence[Pair], splits: Sequence[Split], epsilon: float) -> bool:
    """Return whether δ(ε) ≤ NEGLIGIBLE for every split.

    Outcomes that are unlisted, or impossible under Q, are counted with their full probability.
    """
    uncovered = max(pair.missing + pair.certain() for pair in pairs) * sum(splits[0])
    uncovered += max(swap_cost(pairs, split, epsilon) for split in splits)
    best = 0.0
    for exponent in _EXPONENTS:
        moments = [_log_moment(pair, float(exponent)) for pair in pairs]
        # The bound is a product over coordinates, so its logarithm is a sum over the pairs of a split.
        worst = max(sum(n * m for n, m in zip(split, moments, strict=True)) for split in splits)
        best = min(best, worst - float(exponent) * epsilon)
    return math.exp(best) + uncovered <= NEGLIGIBLE


def _log_moment(pair: Pair, exponent: float) -> float:
    """Return log E_P e^{tL}, rounded up by the possible error of the logarithms."""
    losses, log_masses = pair.finite
    return float(logsumexp(log_masses + exponent * losses)) + pair.error * (1 + 2 * exponent) + 1e-12
