"""Secrecy of the sample: exact distributions of small studies, what is requested, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import dpbandits as dp
from dpbandits._arrays import FloatArray
from dpbandits.privacy import PrivacyRequest, calibrate, guarantee
from dpbandits.protocol import Schedule, Study
from dpbandits.service.wire import PartyTerms, terms_of

REACH = 40


def _noisy(total: int, epsilon: float, cut: float) -> FloatArray:
    """Return the distribution of a sum of 0 or 1 with Laplace noise; values beyond `cut` stand for (ε, δ)."""
    values = np.arange(-REACH, REACH + 1)
    chances = np.exp(-epsilon * np.abs(values - total))
    chances[np.abs(values - total) > cut] = 0
    return np.asarray(chances / chances.sum(), dtype=np.float64)


def _releases(data: list[int], epsilon: float, cut: float) -> FloatArray:
    """Return the distribution of two releases, about one and about two clients of a random order."""
    found = np.zeros((2 * REACH + 1, 2 * REACH + 1))
    orders = list(itertools.permutations(range(len(data)), 3))
    for first, second, third in orders:
        one = _noisy(data[first], epsilon, cut)
        two = _noisy(data[second] + data[third], epsilon, cut)
        # The second phase sees the first release: it counts backwards if that release was negative.
        found += np.where(
            np.arange(-REACH, REACH + 1)[:, None] < 0, np.outer(one, two[::-1]), np.outer(one, two)
        )
    return found / len(orders)


def _delta(ours: FloatArray, theirs: FloatArray, epsilon: float) -> float:
    return float(np.maximum(ours - math.exp(epsilon) * theirs, 0).sum())


@pytest.mark.parametrize("cut", [math.inf, 3])
@pytest.mark.parametrize("clients", [4, 6])
def test_two_phases_are_as_private_as_proved_and_not_with_half_the_share(clients: int, cut: float) -> None:
    share, epsilon = 3 / clients, 1.0
    request = PrivacyRequest(trust="central", epsilon=epsilon, delta=1e-6, sampled_share=share)
    members = request.of_members.epsilon
    base = _delta(_noisy(0, members, cut), _noisy(1, members, cut), members)
    worst = 0.0
    for rest in itertools.product((0, 1), repeat=clients - 1):
        ours, theirs = (_releases([own, *rest], members, cut) for own in (0, 1))
        worst = max(worst, _delta(ours, theirs, epsilon), _delta(theirs, ours, epsilon))
    assert worst <= share * base + 1e-12
    careless = PrivacyRequest(trust="central", epsilon=epsilon, delta=1e-6, sampled_share=share / 2)
    larger = careless.of_members.epsilon
    ours, theirs = (_releases([own] + [0] * (clients - 1), larger, cut) for own in (0, 1))
    base = _delta(_noisy(0, larger, cut), _noisy(1, larger, cut), larger)
    assert max(_delta(ours, theirs, epsilon), _delta(theirs, ours, epsilon)) > share / 2 * base + 1e-3


def test_the_bound_is_reached_by_one_client_of_several() -> None:
    request = PrivacyRequest(trust="central", epsilon=1.0, delta=0.0, sampled_share=0.25)
    one, other = (_noisy(total, request.of_members.epsilon, math.inf) for total in (0, 1))
    mixed = 0.75 * one + 0.25 * other
    assert math.log(np.max(mixed / one)) == pytest.approx(1.0, rel=1e-9)


def test_less_noise_is_added_and_the_guarantee_says_why() -> None:
    plain = PrivacyRequest(trust="central", epsilon=1.0, delta=1e-6, noise="discrete-gaussian")
    secret = PrivacyRequest(
        trust="central", epsilon=1.0, delta=1e-6, noise="discrete-gaussian", sampled_share=0.1
    )
    usual, less = (calibrate(one, coordinates=20, cohort=1000, bound=1.0) for one in (plain, secret))
    assert 0.3 < less.error_deviation(1000) / usual.error_deviation(1000) < 0.4
    stated = guarantee(secret, [less])
    assert stated is not None
    assert (stated.epsilon, stated.delta <= 1e-6, stated.delta > 1e-7) == (1.0, True, True)
    assert "drawn uniformly at random, and nobody else learns who was asked" in stated.needs
    careless = guarantee(plain, [less])
    assert careless is not None
    assert careless.delta > 0.01  # without secrecy, this noise is far too small


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"trust": "shuffle"}, "sampled_share: got 0.1, expected 1, or preset tight"),
        ({"preset": "paper"}, "sampled_share: got 0.1, expected 1, or preset tight"),
        ({"sampled_share": 0}, "sampled_share: got 0"),
        ({"delta": 0.2}, "delta: got 0.2, expected less than sampled_share = 0.1"),
    ],
)
def test_requests_that_no_theorem_covers_are_refused(changed: dict[str, object], message: str) -> None:
    given = {"trust": "central", "sampled_share": 0.1, **changed}
    with pytest.raises(dp.errors.InvalidValue, match=message):
        PrivacyRequest(**given)  # type: ignore[arg-type]


def test_a_study_asks_no_larger_share_and_is_not_deployed() -> None:
    def study(population: int | None) -> Study:
        return Study(
            actions=dp.Actions(np.eye(3)),
            horizon=1000,
            privacy=PrivacyRequest(trust="central", sampled_share=0.1),
            schedule=Schedule(cohorts=(60, 40), first_length=3),
            population=population,
        )

    with pytest.raises(dp.errors.InvalidValue, match="population: got None, expected the number of clients"):
        study(None)
    with pytest.raises(dp.errors.InvalidValue, match=r"expected at least 0.1001.*: 100 of 999 are asked"):
        study(999)
    party = PartyTerms(url="https://coordinator.test", key="k")
    with pytest.raises(dp.errors.InvalidValue, match="first come, first served"):
        terms_of(study(1000), run="r", coordinator=party)


def test_a_secret_sample_of_a_table() -> None:
    options = dp.Options.from_table({"name": ["a", "b"], "price": [1, 2]})
    measured = np.random.default_rng(1).uniform([0, 0.5], [1, 1.5], (4000, 2))
    table = dict(zip(options.labels, measured.T, strict=True))
    settings = {
        "people": table,
        "participants": 400,
        "trust": "central",
        "reward_range": (0, 2),
        "epsilon": 0.1,
    }
    found = dp.choose(options, **settings, secret_sample=True)
    plain = dp.choose(options, **settings)
    assert found.guarantee is not None
    assert "at most 0.1 of the clients" in found.guarantee.needs
    assert found.lead.high - found.lead.low < 0.95 * (plain.lead.high - plain.lead.low)
    with pytest.raises(dp.errors.InvalidValue, match="seed: got 1, expected None with secret_sample"):
        dp.choose(options, **settings, secret_sample=True, seed=1)
    with pytest.raises(dp.errors.InvalidValue, match="secret_sample: got True, expected False, unless"):
        dp.choose(options, **{**settings, "people": lambda label: 0.5}, secret_sample=True)
