"""Private LinUCB: sensitivity, noise, guarantee and regret.

False-alarm rate of each statistical check: 10⁻⁶; each also rejects a planted error.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

from dpbandits.actions import Actions
from dpbandits.baselines import Peer, private_linucb
from dpbandits.baselines._private_linucb import _Server, choices
from dpbandits.errors import InvalidValue
from dpbandits.privacy.accounting._gaussian import gaussian_delta
from dpbandits.world import Instance, Population

LOCAL = Peer(trust="local", epsilon=1, delta=1e-6)


def _clients(seed: int = 6) -> Population:
    # Different lengths, because unit vectors tie in the first round and rounding would decide.
    rows = Actions.generate("sphere", count=25, dimension=3, rng=3).matrix
    actions = Actions(rows * np.random.default_rng(5).uniform(0.5, 0.99, size=(25, 1)))
    instance = Instance.draw(actions, np.random.default_rng(seed))
    return Population(instance, heterogeneity=0.1, rewards="bernoulli")


def _textbook(horizon: int, seed: int) -> list[int]:
    """LinUCB with the same clients and no privacy."""
    clients = _clients()
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(2)[0])
    rows, gram, total, played = clients.instance.actions.matrix, np.eye(3), np.zeros(3), []
    for time in range(horizon):
        inverse = np.linalg.inv(gram)
        radius = 1 + math.sqrt(2 * math.log(horizon) + 3 * math.log(1 + time / 3))
        bounds = [x @ inverse @ total + radius * math.sqrt(x @ inverse @ x) for x in rows]
        played.append(int(np.argmax(bounds)))
        x = rows[played[-1]]
        total += clients.averages(1, [played[-1]], [1], rng)[0, 0] * x
        gram += np.outer(x, x)
    return played


@pytest.mark.parametrize("protects", ["actions and rewards", "rewards"])
def test_without_noise_it_is_linucb(protects: str) -> None:
    peer = Peer(trust="local", epsilon=1, delta=1e-6, protects=protects)
    found = choices(_clients(), peer, horizon=500, seed=9, deviation=0.0)
    assert found.tolist() == _textbook(500, seed=9)
    assert len(set(found.tolist())) > 3


@pytest.mark.parametrize("batch", [1, 50])
def test_regret_is_sublinear_without_noise_and_worse_with_it(batch: int) -> None:
    peer = Peer(trust="local", epsilon=1, delta=1e-6, batch=batch)
    gaps = _clients().instance.gaps
    free = gaps[choices(_clients(), peer, horizon=20_000, seed=1, deviation=0.0)]
    assert free[-2_000:].mean() < free[:2_000].mean() / 3
    assert gaps[choices(_clients(), peer, horizon=20_000, seed=1)].sum() > 2 * free.sum()


@pytest.mark.parametrize("bound", [0.3, 1.0, 1.4, 2.5])
@pytest.mark.parametrize("protects", ["actions and rewards", "rewards"])
def test_no_two_messages_are_further_apart_than_the_sensitivity(bound: float, protects: str) -> None:
    peer = Peer(trust="local", epsilon=1, delta=1e-6, bound=bound, protects=protects)
    best = 0.0
    for cosine in np.linspace(0, 1, 201):
        for length in (1.0, 0.9, 0.5):
            x = length * np.array([1.0, 0.0])
            z = np.array([cosine, math.sqrt(1 - cosine**2)])
            best = max(best, _distance(x, bound, z, -bound, protects))
    assert best <= peer.sensitivity * (1 + 1e-12)
    assert best > 0.999 * peer.sensitivity


def _distance(x: Any, y: float, z: Any, w: float, protects: str) -> float:
    if protects == "rewards":
        return abs(y - w)
    # In the eigenbasis of the difference all of it is on the diagonal, so the upper half has its whole norm.
    values, vectors = np.linalg.eigh(np.outer(x, x) - np.outer(z, z))
    upper = np.triu(vectors.T @ (np.outer(x, x) - np.outer(z, z)) @ vectors)
    np.testing.assert_allclose(upper, np.diag(values), atol=1e-12)
    return float(np.linalg.norm(np.concatenate([upper.ravel(), y * x - w * z])))


@pytest.mark.parametrize("protects", ["actions and rewards", "rewards"])
@pytest.mark.parametrize("trust", ["local", "shuffle"])
def test_a_message_is_as_private_as_its_budget_says(trust: str, protects: str) -> None:
    peer = Peer(trust=trust, epsilon=1, delta=1e-6, batch=5_000, protects=protects)
    budget = peer.budget
    assert peer.event.delta(budget.epsilon) == pytest.approx(budget.delta, rel=1e-6)
    assert gaussian_delta(budget.epsilon, peer.deviation / peer.sensitivity) <= budget.delta
    assert gaussian_delta(budget.epsilon, 0.99 * peer.deviation / peer.sensitivity) > budget.delta


def test_shuffling_a_large_batch_saves_noise_and_a_small_one_does_not() -> None:
    small, large = (Peer(trust="shuffle", epsilon=1, delta=1e-6, batch=n) for n in (660, 5_000))
    assert small.deviation == LOCAL.deviation
    assert large.deviation < 0.6 * LOCAL.deviation


@pytest.mark.parametrize("protects", ["actions and rewards", "rewards"])
def test_the_noise_that_is_added_has_the_deviation_that_the_guarantee_needs(protects: str) -> None:
    peer, rng = Peer(trust="local", epsilon=1, delta=1e-6, protects=protects), np.random.default_rng(0)
    draws = []
    for _ in range(2_000):
        server = _Server(np.array([[1.0, 0.0, 0.0]]), peer, peer.deviation, 10)
        server.learn(0, np.zeros((7, 1)), rng)
        if protects == "rewards":
            draws.append(server.total[:1])
            assert server.gram.tolist() == np.diag([7.0, 0, 0]).tolist()
        else:
            np.testing.assert_array_equal(server.gram, server.gram.T)
            draws.append(
                np.concatenate([(server.gram - np.diag([7, 0, 0]))[np.triu_indices(3)], server.total])
            )
    noise = np.array(draws)
    spread = np.sum(noise**2) / (7 * peer.deviation**2)
    assert chi2.ppf(5e-7, noise.size) < spread < chi2.isf(5e-7, noise.size)
    assert not chi2.ppf(5e-7, noise.size) < spread * 0.75 < chi2.isf(5e-7, noise.size)


def test_noise_stays_within_the_norms_of_the_radius() -> None:
    # Among 2,000 draws none may exceed bounds that fail with probability 10⁻¹⁰ each; at half of them many do.
    rng, dimension = np.random.default_rng(1), 6
    upper = np.triu(rng.standard_normal((2_000, dimension, dimension)))
    matrices = upper + np.triu(upper, 1).transpose(0, 2, 1)
    norms = np.abs(np.linalg.eigvalsh(matrices)).max(axis=1)
    limit = 2 * math.sqrt(dimension) + 2 * math.sqrt(math.log(2) + math.log(1e10))
    assert norms.max() < limit
    assert norms.max() > limit / 2.5
    lengths = np.linalg.norm(rng.standard_normal((2_000, dimension)), axis=1)
    assert lengths.max() < math.sqrt(dimension) + math.sqrt(2 * math.log(1e10))


def test_the_trace_carries_regret_and_the_guarantee_that_holds() -> None:
    trace = private_linucb(_clients(), LOCAL, horizon=300, seed=2)
    played = choices(_clients(), LOCAL, horizon=300, seed=2)
    assert trace.regret == pytest.approx(_clients().instance.gaps[played].sum())
    assert trace.participants == 300
    assert (trace.guarantee.trust, trace.guarantee.neighbouring) == ("local", "replace-one")
    assert "protects actions and rewards" in trace.guarantee.needs
    assert trace == private_linucb(_clients(), LOCAL, horizon=300, seed=2)
    assert trace != private_linucb(_clients(), LOCAL, horizon=300, seed=3)


def test_an_incomplete_batch_plays_and_does_not_report() -> None:
    clients = _clients()
    played = choices(clients, Peer(trust="shuffle", epsilon=1, delta=1e-6, batch=40), horizon=100, seed=2)
    assert len(played) == 100
    assert clients.asked == 80


@pytest.mark.parametrize(
    "changes",
    [{"trust": "central"}, {"epsilon": 0}, {"delta": 0}, {"batch": 0}, {"bound": -1}, {"protects": "all"}],
)
def test_errors_name_the_invalid_field_of_a_peer(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(changes))):
        Peer(**{"trust": "local", "epsilon": 1, "delta": 1e-6, **changes})
