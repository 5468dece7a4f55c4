"""A sample of malicious plans, and deliberate errors in the client's checks, which must be detected."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate
from dpbandits.protocol import _exchange as exchange
from dpbandits.service.client import _consent as consent
from dpbandits.service.wire import _terms as terms

from . import hostile_plans
from .hostile_plans import run

LENIENT = "accepted with δ"


def test_no_hostile_plan_is_accepted_with_too_little_noise_and_none_is_expensive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        hostile_plans, "LONGEST", 20.0
    )  # `make liars` checks the limit of two seconds; a test does not
    verdict = run(3000, seed=7)
    assert verdict.problems == []
    assert verdict.outcomes["accepted"] > 500
    assert verdict.outcomes["refused"] > 200


def test_a_client_that_believes_what_it_cannot_prove_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (consent, terms):
        monkeypatch.setattr(module, "proved_delta", lambda _mechanism, _epsilon: 0.0)
    assert any(LENIENT in problem for problem in run(600, seed=7, until=LENIENT).problems)


def test_a_client_whose_accountant_is_off_by_a_fifth_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(mechanism: Mechanism, epsilon: float) -> float:
        return float(mechanism.event.delta(1.25 * epsilon))

    for module in (consent, terms):
        monkeypatch.setattr(module, "proved_delta", lenient)
    assert any(LENIENT in problem for problem in run(3000, seed=7, until=LENIENT).problems)


def test_a_client_that_raises_for_some_rewards_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    original = exchange.respond_with_averages

    def picky(plan: object, averages: list[float], noise: object) -> object:
        if math.isnan(averages[0]):
            raise ValueError("no")
        return original(plan, averages, noise)  # type: ignore[arg-type]

    monkeypatch.setattr(hostile_plans, "respond_with_averages", picky)
    assert any("ValueError" in problem for problem in run(50, seed=7).problems)


@pytest.mark.parametrize("noise", ["discrete-gaussian", "server-gaussian", "skellam", "binomial", "polya"])
def test_the_judge_agrees_with_the_accountant_on_honest_noise(noise: str) -> None:
    """The second accountant's δ is below the library's, and within 10 % of it where that is exact."""
    import json

    from dpbandits.protocol import encode

    delta = 0.0 if noise == "polya" else 1e-4
    request = PrivacyRequest(trust="shuffle", epsilon=1.0, delta=delta, noise=noise)
    made = calibrate(request, coordinates=5, cohort=50, bound=1.0)
    for epsilon in (0.25, 0.5, 0.9):
        own = hostile_plans.true_delta(json.loads(encode(made)), epsilon)
        stated = made.event.delta(epsilon)
        assert own <= stated * hostile_plans.SLACK
        assert np.isclose(own, stated, rtol=0.1)
