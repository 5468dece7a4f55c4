"""Populations from data: fitted and resampled clients, and their actions.

False-alarm rate of each statistical check: 10⁻⁶; each also rejects a planted error.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from dpbandits.errors import InvalidValue
from dpbandits.world import Dataset, load

from .files import cellular_text, ranking_text, write


@pytest.fixture(name="rank")
def _rank(tmp_path: Path) -> Dataset:
    return load(f"ranking:{write(tmp_path / 'r.txt', ranking_text())}", 9)


@pytest.fixture(name="cells")
def _cells(tmp_path: Path) -> Dataset:
    return load(f"cellular:{write(tmp_path / 'c.csv', cellular_text())}", 20)


def _averages(data: Dataset, users: str, cohort: int = 20_000) -> tuple[np.ndarray, np.ndarray]:
    """The mean rewards of clients for three actions, and the true means of these actions."""
    rng = np.random.default_rng(7)
    instance = data.instance(data.choose(30, rng), users)
    clients = data.people(instance, users, size=None, rewards="gaussian")
    found = clients.averages(cohort, [0, 5, 9], [10**12] * 3, rng)
    return found, instance.mean_rewards[[0, 5, 9]]


@pytest.mark.parametrize("kind", ["rank", "cells"])
@pytest.mark.parametrize("users", ["fitted", "resampled", "measured"])
def test_clients_have_the_instance_for_their_mean(
    kind: str, users: str, request: pytest.FixtureRequest
) -> None:
    data: Dataset = request.getfixturevalue(kind)
    if kind == "rank" and users == "measured":
        with pytest.raises(InvalidValue, match="users: got measured, expected fitted or resampled"):
            _averages(data, users)
        return
    found, truth = _averages(data, users)
    error = found.std(axis=0) / np.sqrt(len(found)) * norm.isf(1e-6 / 6)
    assert (np.abs(found.mean(axis=0) - truth) < error).all()
    assert not (np.abs(found.mean(axis=0) - 1.2 * truth) < error).all()


def test_fitted_clients_have_the_fitted_covariance(rank: Dataset) -> None:
    rng = np.random.default_rng(3)
    instance = rank.instance(rank.choose(30, rng), "fitted")
    clients = rank.people(instance, "fitted", size=None, rewards="gaussian")
    found = clients.averages(20_000, [1, 2], [10**12] * 2, rng)
    rows = instance.actions.matrix[[1, 2]]
    spread = np.var(found, axis=0) / np.diag(rows @ rank.covariance @ rows.T)
    limit = norm.isf(1e-6 / 4) * np.sqrt(2 / len(found))
    assert (np.abs(spread - 1) < limit).all()
    assert not (np.abs(1.1 * spread - 1) < limit).all()


def test_resampled_clients_are_the_users(cells: Dataset) -> None:
    assert cells.measured is not None
    found, _ = _averages(cells, "measured", cohort=500)
    users = {tuple(row) for row in np.round(cells.measured[:, [0, 5, 9]], 3)}
    assert {tuple(row) for row in np.round(found, 3)} <= {
        tuple(np.round(np.array(user) + shift, 3)) for user in users for shift in (-0.001, 0, 0.001)
    }
    assert len({tuple(row) for row in np.round(found, 2)}) > 3


@pytest.mark.parametrize("kind", ["rank", "cells"])
def test_the_heterogeneity_bounds_what_clients_do_in_every_direction(
    kind: str, request: pytest.FixtureRequest
) -> None:
    data: Dataset = request.getfixturevalue(kind)
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((200, len(data.theta)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    fitted = np.sqrt(np.einsum("ij,jk,ik->i", directions, data.covariance, directions))
    assert fitted.max() <= data.heterogeneity("fitted") * (1 + 1e-9)
    # The exact moment generating function of the uniform distribution on the users.
    moved = (data.parameters - data.theta) @ directions.T
    for strength in (0.5, 2.0, 8.0):
        exponent = np.log(np.mean(np.exp(strength * moved), axis=0))
        assert exponent.max() <= (strength * data.heterogeneity("resampled")) ** 2 / 2 * (1 + 1e-9)
        assert exponent.max() > (strength * data.heterogeneity("resampled") / 40) ** 2 / 2


def test_actions_are_drawn_from_a_ranking_and_taken_whole_from_a_table(rank: Dataset, cells: Dataset) -> None:
    chosen = rank.choose(50, np.random.default_rng(1))
    assert len(set(chosen.tolist())) == 50
    assert chosen.tolist() != rank.choose(50, np.random.default_rng(2)).tolist()
    assert len(cells.choose(5, np.random.default_rng(1))) == len(cells.catalogue)
    with pytest.raises(InvalidValue, match="actions: got 9999, expected at most 720"):
        rank.choose(9999, np.random.default_rng(1))


@pytest.mark.parametrize("name", ["mslr", "ranking", "ranking:", "cellular:", "other:path"])
def test_names_that_are_no_data_set_are_refused(name: str) -> None:
    with pytest.raises(InvalidValue, match="data: got .*, expected one of mslr-sample, ranking:PATH"):
        load(name, 20)


@pytest.mark.parametrize("kind", ["ranking", "cellular"])
def test_a_missing_file_is_one_clear_line(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="data: got .*nowhere, expected an existing file"):
        load(f"{kind}:{tmp_path / 'nowhere'}", 20)
