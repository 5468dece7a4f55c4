"""Options of the search, and properties over random action sets."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import dpbandits.design
from dpbandits.design import near_g_optimal, support_bound
from dpbandits.design._exchange import Exchange
from dpbandits.design._reduction import reduced
from dpbandits.design._span import find_span
from dpbandits.errors import DesignError, InvalidValue


def sphere(count, dimension, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def leverages(actions, support, weights):
    rows = actions[support]
    inverse = np.linalg.pinv(rows.T @ (np.asarray(weights)[:, None] * rows), rcond=1e-9, hermitian=True)
    return np.einsum("ij,jk,ik->i", actions, inverse, actions)


def test_what_the_package_exports():
    assert sorted(dpbandits.design.__all__) == [
        "Certificate",
        "Cover",
        "Design",
        "DifferenceDesign",
        "KINDS",
        "Selection",
        "certify",
        "cover",
        "cover_size",
        "for_differences",
        "near_g_optimal",
        "support_bound",
    ]


@pytest.mark.parametrize(("rank", "bound"), [(0, 16), (1, 16), (2, 16), (3, 17), (20, 103), (50, 288)])
def test_support_bound(rank, bound):
    assert math.floor(support_bound(rank)) == bound


@pytest.mark.parametrize("tolerance", [1.1, 1.2, 1.5, 3.0])
@pytest.mark.parametrize("dimension", [1, 2, 5, 20])
def test_tolerances(tolerance, dimension):
    actions = sphere(600, dimension)
    design = near_g_optimal(actions, tolerance=tolerance)
    assert design.certificate.tolerance == tolerance
    assert leverages(actions, design.support, design.weights).max() <= tolerance * dimension
    assert design.support.size <= max(support_bound(dimension), dimension * (dimension + 1) // 2)


def test_a_tolerance_so_small_that_the_support_must_be_reduced():
    actions = sphere(500, 10)
    design = near_g_optimal(actions, tolerance=1.0005)
    assert design.certificate.g <= 10.005
    assert design.support.size <= 55


def test_a_reduction_keeps_the_information_matrix():
    rows = sphere(80, 5)
    weights = np.random.default_rng(1).dirichlet(np.ones(80))
    fewer = reduced(rows, weights)
    assert np.count_nonzero(fewer) <= 15
    before, after = (rows.T @ (values[:, None] * rows) for values in (weights, fewer))
    assert after / np.trace(after) == pytest.approx(before / np.trace(before), abs=1e-12)
    assert np.trace(after) >= np.trace(before) * (1 - 1e-12)


def test_a_span_of_given_rank_holds_the_leading_directions():
    actions = sphere(200, 6) * np.array([1, 1, 1, 1, 1, 1e-3])
    turned = actions @ np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    span = find_span(turned, rank=5)
    assert span.rank == span.basis.shape[1] == span.coordinates.shape[1] == span.pivots.size == 5
    assert span.coordinates[span.pivots] == pytest.approx(np.eye(5), abs=1e-9)
    assert np.abs(turned - turned @ span.basis @ span.basis.T).max() < 1e-2


def test_rank_one_updates_agree_with_a_fresh_factorisation():
    actions = sphere(300, 8)
    weights = np.zeros(300)
    weights[:8] = 1 / 8
    exchange = Exchange(actions, weights)
    for _ in range(40):
        exchange._step()
    support = np.flatnonzero(exchange.weights)
    assert exchange.weights.sum() == pytest.approx(1)
    assert exchange.leverages == pytest.approx(leverages(actions, support, exchange.weights[support]))
    updated = exchange.leverages.copy()
    exchange.refactorise()
    assert exchange.leverages == pytest.approx(updated)


def test_a_smaller_support_can_be_asked_for():
    actions = sphere(1000, 20)
    size = near_g_optimal(actions, tolerance=1.3).support.size
    design = near_g_optimal(actions, tolerance=1.4, max_support=size - 4)
    assert design.support.size <= size - 4
    assert design.certificate.g <= 1.4 * 20


@pytest.mark.parametrize("max_support", [19, 20])
def test_an_unattainable_support_is_an_error_that_names_what_was_reached(max_support):
    with pytest.raises(DesignError, match=r"rank 20: .*(exceeds|outside)"):
        near_g_optimal(sphere(1000, 20), max_support=max_support)


@pytest.mark.parametrize(
    "options",
    [
        {"tolerance": 1.0},
        {"tolerance": float("nan")},
        {"max_support": 0},
        {"max_support": 2.5},
        {"rng": 7},
        {"warm_start": SimpleNamespace(support=[0, 99], weights=[0.5, 0.5])},
        {"warm_start": SimpleNamespace(support=[0, 0], weights=[0.5, 0.5])},
        {"warm_start": SimpleNamespace(support=[0.5, 1], weights=[0.5, 0.5])},
        {"warm_start": SimpleNamespace(support=[0, 1], weights=[1.0, 0.0])},
        {"warm_start": SimpleNamespace(support=[0, 1], weights=[1.0])},
    ],
)
def test_options_that_cannot_be_used_are_named(options):
    (name,) = options
    with pytest.raises(InvalidValue, match=name):
        near_g_optimal(sphere(50, 3), **options)


def test_a_warm_start_that_is_good_enough_is_kept():
    actions = sphere(500, 10)
    first = near_g_optimal(actions)
    second = near_g_optimal(actions, warm_start=first)
    assert second.support.tolist() == first.support.tolist()
    assert second.weights == pytest.approx(first.weights, rel=1e-12)


@pytest.mark.parametrize("support", [[0, 1], [5], list(range(500)), [498, 3, 499]])
def test_warm_starts_that_do_not_span_or_are_too_large(support):
    actions = sphere(500, 10)
    actions[:3] = 0
    start = SimpleNamespace(support=support, weights=np.full(len(support), 1 / len(support)))
    design = near_g_optimal(actions, warm_start=start)
    assert design.certificate.holds


def test_arrays_are_read_only_and_the_input_is_left_alone():
    actions = sphere(100, 5)
    before = actions.copy()
    design = near_g_optimal(actions)
    assert (actions == before).all()
    for array in (design.support, design.weights, design.basis):
        assert not array.flags.writeable
    assert design.support.dtype == np.int64
    assert design.weights.dtype == np.float64


def test_lists_integers_and_other_layouts_are_accepted():
    actions = np.random.default_rng(0).integers(-3, 4, (60, 4))
    expected = near_g_optimal(actions.astype(float))
    for same in (actions, actions.tolist(), np.asfortranarray(actions.astype(float))):
        assert near_g_optimal(same).support.tolist() == expected.support.tolist()


FAMILIES = {
    "sphere": lambda rng, shape: sphere(*shape, seed=rng.integers(2**31)),
    "gauss": lambda rng, shape: rng.normal(size=shape),
    "heavy": lambda rng, shape: rng.standard_cauchy(shape),
    "corners": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
    "clusters": lambda rng, shape: (
        rng.normal(size=(3, shape[1]))[rng.integers(3, size=shape[0])] + 1e-2 * rng.normal(size=shape)
    ),
}


@st.composite
def action_sets(draw, families, degenerate=True):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, dimension = draw(st.integers(1, 80)), draw(st.integers(1, 12))
    actions = FAMILIES[draw(st.sampled_from(families))](rng, (count, dimension))
    if draw(st.booleans()):
        rank = draw(st.integers(1, dimension))
        actions = actions[:, :rank] @ rng.normal(size=(rank, dimension))
    if draw(st.booleans()):
        actions = actions[rng.integers(count, size=count)]
    if draw(st.booleans()):
        actions = actions * (rng.random((count, 1)) < 0.7)
    if degenerate and draw(st.booleans()):
        actions = actions * 10.0 ** rng.uniform(-8, 0, dimension)
    if degenerate and draw(st.booleans()):
        actions = actions + 10.0 ** rng.uniform(-15, -3) * rng.normal(size=actions.shape)
    if degenerate and draw(st.booleans()):
        actions = actions * 10.0 ** draw(st.integers(-250, 250))
    return actions


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(action_sets(list(FAMILIES)), st.sampled_from([1.1, 1.3, 2.0]))
def test_bounds_hold_for_any_actions(actions, tolerance):
    design = near_g_optimal(actions, tolerance=tolerance)
    rank = design.rank
    assert design.certificate.holds
    assert design.certificate.rank == rank <= min(actions.shape)
    assert rank == 0 or rank <= design.certificate.g * (1 + 1e-6) <= tolerance * rank * (1 + 2e-6)
    limit = support_bound(rank) if tolerance == 2 else max(support_bound(rank), rank * (rank + 1) // 2)
    assert design.support.size <= limit
    again = near_g_optimal(actions.copy(), tolerance=tolerance, rng=np.random.default_rng(1))
    assert again.support.tobytes() == design.support.tobytes()
    assert again.weights.tobytes() == design.weights.tobytes()


@settings(max_examples=500, deadline=None, derandomize=True)
@given(action_sets(["sphere", "gauss", "corners"], degenerate=False))
def test_certificate_agrees_with_brute_force(actions):
    design = near_g_optimal(actions)
    lengths = np.linalg.svd(actions, compute_uv=False)
    if design.rank and lengths[design.rank - 1] > 1e-3 * lengths[0]:
        assert design.rank == np.linalg.matrix_rank(actions)
        assert leverages(actions, design.support, design.weights).max() == pytest.approx(design.certificate.g)
