"""Features of data sets become actions in the unit ball."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.sparse import csr_array

from dpbandits.errors import InvalidValue
from dpbandits.world._features import whitened


@given(seed=st.integers(0, 10**6), dimension=st.integers(2, 6), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_actions_lie_in_the_unit_ball_with_a_constant(seed: int, dimension: int, scale: float) -> None:
    rows = scale * np.random.default_rng(seed).standard_cauchy((40, 5))
    found = whitened(csr_array(rows), dimension, longest=0.9)
    assert found.shape == (40, dimension)
    np.testing.assert_allclose(found[:, 0], np.sqrt(0.5))
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12


def test_components_are_uncorrelated_and_of_one_variance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 4)) @ rng.standard_normal((4, 4)) + 3
    found = whitened(csr_array(rows), 5, longest=1.0)[:, 1:]
    covariance = np.cov(found.T, bias=True)
    np.testing.assert_allclose(covariance, covariance[0, 0] * np.eye(4), atol=1e-12)
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(np.sqrt(0.5))


def test_columns_without_variation_are_ignored_and_too_many_dimensions_refused() -> None:
    rows = np.random.default_rng(1).standard_normal((30, 3))
    rows[:, 1] = 7.0
    assert whitened(csr_array(rows), 3, longest=1.0).shape == (30, 3)
    with pytest.raises(InvalidValue, match="dimension: got 4, expected at most 3: the features have rank 2"):
        whitened(csr_array(rows), 4, longest=1.0)
    with pytest.raises(InvalidValue, match="at most 1"):
        whitened(csr_array(np.full((5, 2), 0.1)), 2, longest=1.0)
    with pytest.raises(InvalidValue, match="at most 1"):
        whitened(csr_array((5, 0)), 2, longest=1.0)
    with pytest.raises(InvalidValue, match="dimension"):
        whitened(csr_array(rows), 1, longest=1.0)
