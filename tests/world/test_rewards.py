"""Distributions of rewards and of their averages.

False-alarm rate of each statistical check: 10⁻⁶; each also rejects a wrong scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, kstest, norm, uniform

from dpbandits.world import REWARD_LAWS

VARIANCE = {"gaussian": 1.0, "uniform": 1 / 3}
SIZE = 20_000


def _averages(law: str, plays: int, mean: float = 0.3) -> Any:
    means = np.full((SIZE, 1), mean)
    return REWARD_LAWS[law](means, np.array([float(plays)]), np.random.default_rng(plays)).ravel()


def _variance_is(sample: Any, variance: float) -> bool:
    spread = np.sum((sample - sample.mean()) ** 2) / variance
    # The fourth moments are at most that of the normal distribution, so the chi-square bound is safe.
    return bool(chi2.ppf(5e-7, SIZE - 1) < spread < chi2.isf(5e-7, SIZE - 1))


@pytest.mark.parametrize("law", REWARD_LAWS)
@pytest.mark.parametrize("plays", [1, 7, 12, 13, 100, 10**9])
def test_mean_and_variance_of_an_average(law: str, plays: int) -> None:
    sample = _averages(law, plays)
    variance = VARIANCE.get(law, 1 - 0.3**2) / plays
    assert abs(sample.mean() - 0.3) < norm.isf(5e-7) * np.sqrt(variance / SIZE)
    assert _variance_is(sample, variance)
    assert not _variance_is(sample, 1.1 * variance)
    assert not _variance_is(sample, 0.9 * variance)


@pytest.mark.parametrize("plays", [1, 12, 13, 40])
def test_uniform_averages_have_the_distribution_of_a_sum_of_uniforms(plays: int) -> None:
    direct = np.random.default_rng(99).uniform(-1, 1, size=(SIZE, plays)).mean(axis=1)
    sample = _averages("uniform", plays, mean=0.0)
    assert kstest(sample, direct).pvalue > 1e-6
    assert kstest(abs(sample), abs(1.15 * direct)).pvalue < 1e-6
    assert np.abs(sample).max() <= 1 + 1e-9
    if plays == 1:
        assert kstest(sample, uniform(-1, 2).cdf).pvalue > 1e-6


def test_bernoulli_rewards_are_plus_or_minus_one_and_means_are_cut() -> None:
    assert set(_averages("bernoulli", 1)) == {-1.0, 1.0}
    assert (_averages("bernoulli", 5, mean=1.7) == 1).all()
