"""The certificate accepts what is right and rejects each planted error."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpbandits.design import certify, near_g_optimal, support_bound


@pytest.fixture(scope="module")
def actions():
    rows = np.random.default_rng(0).normal(size=(400, 10))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def design(actions):
    return near_g_optimal(actions)


def problems(*arguments, **options) -> str:
    certificate = certify(*arguments, **options)
    assert certificate.holds == (not certificate.problems)
    return "; ".join(certificate.problems)


def test_a_right_design_is_accepted(actions, design):
    certificate = certify(actions, design.support, design.weights)
    assert certificate.holds
    assert certificate == design.certificate
    assert certificate.slack == pytest.approx(20 - certificate.g)
    assert certificate.support_limit == int(support_bound(10))


def test_wrong_weights_are_rejected(actions, design):
    skewed = np.full(design.support.size, 1e-3)
    skewed[0] = 1 - skewed[1:].sum()
    assert "exceeds 2 · rank" in problems(actions, design.support, skewed)


def test_weights_of_other_rows_are_rejected(actions, design):
    others = np.setdiff1d(np.arange(len(actions)), design.support)[: design.support.size]
    assert "exceeds" in problems(actions, others, design.weights)


def test_a_support_that_does_not_span_is_rejected(actions, design):
    few = design.support[:9]
    certificate = certify(actions, few, np.full(9, 1 / 9))
    assert certificate.rank == 10
    assert certificate.g == math.inf
    assert "outside the span" in "; ".join(certificate.problems)


def test_a_support_that_misses_the_row_off_the_plane_is_rejected(actions):
    flat = actions.copy()
    flat[:, 9] = 0
    design = near_g_optimal(flat)
    flat[3, 9] = 1e-6
    assert 3 not in design.support
    assert "outside" in problems(flat, design.support, design.weights)


@pytest.mark.parametrize("factor", [0.99, 1 + 1e-6, 2])
def test_weights_that_do_not_sum_to_one_are_rejected(actions, design, factor):
    assert "sum to" in problems(actions, design.support, factor * design.weights)


@pytest.mark.parametrize("bad", [0.0, -0.1, math.nan, math.inf])
def test_a_weight_that_is_not_positive_is_rejected(actions, design, bad):
    weights = design.weights.copy()
    weights[2] = bad
    assert "not a number > 0" in problems(actions, design.support, weights)


@pytest.mark.parametrize("index", [-1, 400])
def test_an_index_out_of_range_is_rejected(actions, design, index):
    support = design.support.copy()
    support[0] = index
    assert "outside 0 ... 399" in problems(actions, support, design.weights)


def test_an_index_named_twice_is_rejected(actions, design):
    support = design.support.copy()
    support[0] = support[1]
    assert "twice" in problems(actions, support, design.weights)


def test_shapes_that_do_not_fit_are_rejected(actions, design):
    assert "weights for" in problems(actions, design.support, design.weights[1:])
    assert "not a list" in problems(actions, design.support.astype(float), design.weights)
    assert "not a list" in problems(actions, [], [])


def test_too_large_a_support_is_rejected_although_g_is_small(actions):
    everything = np.arange(400)
    certificate = certify(actions, everything, np.full(400, 1 / 400))
    assert certificate.g <= 20
    assert "400 supported actions exceed" in "; ".join(certificate.problems)


def test_limits_can_be_set(actions, design):
    size = design.support.size
    assert "exceed the limit" in problems(actions, design.support, design.weights, max_support=size - 1)
    assert not problems(actions, design.support, design.weights, max_support=size)
    assert "exceeds 1.1" in problems(actions, design.support, design.weights, tolerance=1.1)


@pytest.mark.parametrize("scale", [1e-160, 1e-8, 3.0, 1e150])
def test_g_does_not_depend_on_the_units_of_columns_or_of_all(actions, design, scale):
    certificate = certify(actions * scale, design.support, design.weights)
    assert certificate.g == pytest.approx(design.certificate.g, rel=1e-9)
    units = scale ** np.linspace(-0.02, 0.02, 10)
    certificate = certify(actions * units, design.support, design.weights)
    assert certificate.g == pytest.approx(design.certificate.g, rel=1e-9)


@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_g_does_not_change_under_invertible_transforms(actions, design, condition):
    rng = np.random.default_rng(1)
    left, right = (np.linalg.qr(rng.normal(size=(10, 10)))[0] for _ in range(2))
    transform = left @ np.diag(np.geomspace(1, 1 / condition, 10)) @ right
    certificate = certify(actions @ transform, design.support, design.weights)
    assert certificate.holds
    assert certificate.rank == 10
    assert certificate.g == pytest.approx(design.certificate.g, rel=1e-8)
