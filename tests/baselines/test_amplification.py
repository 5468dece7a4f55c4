"""Privacy amplification by shuffling, compared with the theorem computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from dpbandits.baselines._amplification import (
    ACCOUNTANT,
    ALONE,
    amplified_epsilon,
    largest_local_epsilon,
    local_budget,
)
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting import gaussian_noise_ratio


def test_the_theorem_at_a_point_computed_by_hand() -> None:
    # ε₀ = 1, n = 10⁶, δ' = 10⁻⁶: 8·√(e·log(4·10⁶)/10⁶) = .051427, 8e/10⁶ = 2.2·10⁻⁵, times 1 − 1/e.
    assert amplified_epsilon(1.0, 10**6, 1e-6) == pytest.approx(math.log(1 + 0.632121 * 0.051449), rel=1e-4)
    assert largest_local_epsilon(10**6, 1e-6) == pytest.approx(math.log(10**6 / (16 * 15.2018)), rel=1e-6)


@given(epsilon=st.floats(0.05, 5), log_delta=st.floats(-10, -3), clients=st.integers(1, 10**7))
def test_what_is_budgeted_is_within_the_theorem(epsilon: float, log_delta: float, clients: int) -> None:
    delta = 10**log_delta
    budget = local_budget(epsilon, delta, clients)
    if budget.accountant == ALONE:
        assert (budget.epsilon, budget.delta) == (epsilon, delta)
        return
    assert budget.epsilon <= largest_local_epsilon(clients, delta / 2) + 1e-12
    assert amplified_epsilon(budget.epsilon, clients, delta / 2) <= epsilon * (1 + 1e-12)
    factor = (math.exp(epsilon) + 1) * (1 + math.exp(-budget.epsilon) / 2)
    assert delta / 2 + factor * clients * budget.delta <= delta * (1 + 1e-12)
    assert gaussian_noise_ratio(budget.epsilon, budget.delta) <= gaussian_noise_ratio(epsilon, delta)


def test_many_clients_amplify_and_few_do_not() -> None:
    assert local_budget(1.0, 1e-6, 660).accountant == ALONE
    few, many = local_budget(1.0, 1e-6, 5_000), local_budget(1.0, 1e-6, 10**6)
    assert few.accountant == many.accountant == ACCOUNTANT
    assert 1 < few.epsilon < many.epsilon


@pytest.mark.parametrize(("epsilon", "delta", "clients"), [(0, 1e-6, 9), (1, 0, 9), (1, 1e-6, 0)])
def test_invalid_arguments_are_refused(epsilon: float, delta: float, clients: int) -> None:
    with pytest.raises(InvalidValue):
        local_budget(epsilon, delta, clients)
