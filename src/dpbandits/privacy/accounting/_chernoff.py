"""A rough but instant upper bound on δ(ε), for the many sign patterns of asymmetric noise.

δ(ε) = E_P (1 − e^{ε − L})₊ ≤ P(L > ε) ≤ E_P e^{t(L − ε)} for every t > 0, with L the privacy loss, and the
expectation is a product over coordinates. Where this is negligible nothing finer is of use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from dpbandits.privacy.accounting._window import Split
from dpbandits.privacy.accounting._worst_pair import Pair, swap_cost

NEGLIGIBLE = 1e-60
_EXPONENTS = 2.0 ** np.arange(-2, 10)


def is_negligible(pairs: Sequence[Pair], splits: Sequence[Split], epsilon: float) -> bool:
    """Whether δ(ε) ≤ NEGLIGIBLE for every split; unlisted and impossible outcomes count in full."""
    uncovered = max(pair.missing + pair.certain() for pair in pairs) * sum(splits[0])
    uncovered += max(swap_cost(pairs, split, epsilon) for split in splits)
    best = 0.0
    for exponent in _EXPONENTS:
        moments = [_log_moment(pair, float(exponent)) for pair in pairs]
        worst = max(sum(n * m for n, m in zip(split, moments, strict=True)) for split in splits)
        best = min(best, worst - float(exponent) * epsilon)
    return math.exp(best) + uncovered <= NEGLIGIBLE


def _log_moment(pair: Pair, exponent: float) -> float:
    """log E_P e^{tL}, rounded up by what the logarithms may be off."""
    losses, log_masses = pair.finite()
    return float(logsumexp(log_masses + exponent * losses)) + pair.error * (1 + 2 * exponent) + 1e-12
