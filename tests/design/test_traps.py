"""Action sets that break careless implementations, with one test per set."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.design import Design, near_g_optimal, support_bound
from dpbandits.errors import InvalidValue


def sphere(count, dimension, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def expect_within_bounds(actions, rank, tolerance=2.0) -> Design:
    design = near_g_optimal(actions, tolerance=tolerance)
    assert design.rank == design.certificate.rank == rank
    assert design.certificate.holds
    assert design.certificate.g <= tolerance * rank
    assert design.support.size == design.weights.size <= support_bound(rank)
    assert (np.diff(design.support) > 0).all()
    assert (design.weights > 0).all()
    assert design.weights.sum() == pytest.approx(1, abs=1e-12)
    assert design.basis.shape == (np.shape(actions)[1], rank)
    assert design.basis.T @ design.basis == pytest.approx(np.eye(rank), abs=1e-12)
    return design


def brute_force_g(actions, design):
    rows = actions[design.support]
    information = rows.T @ (design.weights[:, None] * rows)
    inverse = np.linalg.pinv(information, rcond=1e-10, hermitian=True)
    return np.einsum("ij,jk,ik->i", actions, inverse, actions).max()


def test_fewer_rows_than_dimensions():
    design = expect_within_bounds(sphere(7, 20), rank=7)
    assert design.certificate.g == pytest.approx(7)
    assert design.weights == pytest.approx(np.full(7, 1 / 7))


def test_rank_below_dimension_is_compared_with_twice_the_rank():
    actions = sphere(500, 4) @ sphere(4, 20, seed=1)
    design = expect_within_bounds(actions, rank=4)
    assert brute_force_g(actions, design) == pytest.approx(design.certificate.g)
    assert actions @ design.basis @ design.basis.T == pytest.approx(actions, abs=1e-12)


def test_one_row_off_a_hyperplane_by_a_millionth_is_a_dimension():
    actions = sphere(300, 6)
    actions[:, 5] = 0
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    actions[137, 5] = 1e-6
    for rows in (actions, actions @ turned):
        design = expect_within_bounds(rows, rank=6)
        assert 137 in design.support


def test_duplicated_rows():
    actions = np.repeat(sphere(30, 5), 20, axis=0)
    expect_within_bounds(actions, rank=5)
    expect_within_bounds(np.tile(sphere(1, 5), (50, 1)), rank=1)


def test_zero_rows_among_others():
    actions = np.vstack([np.zeros((100, 5)), sphere(50, 5), np.zeros((3, 5))])
    design = expect_within_bounds(actions, rank=5)
    assert design.support.min() >= 100
    assert design.support.max() < 150


def test_all_rows_zero():
    design = near_g_optimal(np.zeros((9, 4)))
    assert design.certificate.holds
    assert (design.rank, design.certificate.g, design.basis.shape) == (0, 0.0, (4, 0))
    assert design.support.tolist() == [0]
    assert design.weights.tolist() == [1.0]


def test_column_scales_down_to_1e_8():
    expect_within_bounds(sphere(400, 9) * np.logspace(0, -8, 9), rank=9)


def test_column_scales_hidden_by_a_rotation():
    turned = np.linalg.qr(np.random.default_rng(1).normal(size=(9, 9)))[0]
    expect_within_bounds((sphere(400, 9) * np.logspace(0, -8, 9)) @ turned, rank=9)


@pytest.mark.parametrize("scale", [1e-160, 1e150, 1e-300, 1e300])
def test_overall_scale(scale):
    actions = sphere(200, 8)
    plain, scaled = near_g_optimal(actions), expect_within_bounds(actions * scale, rank=8)
    assert scaled.support.tolist() == plain.support.tolist()
    assert scaled.certificate.g == pytest.approx(plain.certificate.g)


def test_the_units_of_columns_do_not_change_the_design():
    actions = sphere(200, 8)
    plain, scaled = near_g_optimal(actions), near_g_optimal(actions * np.geomspace(1e-5, 300, 8))
    assert scaled.support.tolist() == plain.support.tolist()
    assert scaled.weights == pytest.approx(plain.weights)


def test_subnormal_rows():
    expect_within_bounds(np.full((3, 2), 5e-324), rank=1)


def test_rows_scaled_by_a_power_of_two_get_the_same_design():
    actions = sphere(200, 8)
    plain, scaled = near_g_optimal(actions), near_g_optimal(actions * 2.0**-500)
    assert plain.support.tolist() == scaled.support.tolist()
    assert plain.weights.tolist() == scaled.weights.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_entry_that_is_not_finite_is_named(bad):
    actions = sphere(50, 4)
    actions[31, 2] = bad
    with pytest.raises(InvalidValue, match=r"actions\[31, 2\]"):
        near_g_optimal(actions)


@pytest.mark.parametrize("actions", [np.zeros((0, 3)), np.zeros((3, 0)), np.zeros(3), [["a"]]])
def test_what_is_no_matrix_is_refused(actions):
    with pytest.raises(InvalidValue, match="actions"):
        near_g_optimal(actions)


def test_one_dimension():
    actions = np.random.default_rng(0).normal(size=(100, 1))
    design = expect_within_bounds(actions, rank=1)
    assert design.support.tolist() == [np.abs(actions[:, 0]).argmax()]


def test_two_dimensions():
    actions = sphere(1000, 2)
    assert brute_force_g(actions, expect_within_bounds(actions, rank=2)) <= 4


@pytest.mark.parametrize("row", [[3.0], [0.0, -2.0, 1e-9], [1e-200, 1e-200]])
def test_one_row(row):
    design = expect_within_bounds(np.array([row]), rank=1)
    assert design.certificate.g == pytest.approx(1)


def test_both_bounds_hold_where_uniform_weights_meet_only_the_first():
    actions = sphere(1000, 20)
    uniform = np.einsum("ij,jk,ik->i", actions, np.linalg.inv(actions.T @ actions / 1000), actions)
    assert uniform.max() <= 2 * 20
    design = expect_within_bounds(actions, rank=20)
    assert design.support.size <= 3 * 20
    assert brute_force_g(actions, design) == pytest.approx(design.certificate.g)


@pytest.mark.parametrize("tail", [1.0, 0.5, 0.2])
def test_heavy_tailed_row_norms(tail):
    norms = np.random.default_rng(1).pareto(tail, (1000, 1))
    expect_within_bounds(sphere(1000, 12) * norms, rank=12)


def test_rows_below_a_ten_billionth_of_the_largest_add_no_dimension():
    actions = sphere(3, 3)
    assert near_g_optimal(actions * np.array([[1], [1], [1e-8]])).rank == 3
    assert near_g_optimal(actions * np.array([[1], [1], [1e-12]])).rank == 2


@pytest.mark.parametrize("width", [1e-1, 1e-4, 1e-7])
def test_clustered_actions(width):
    rng = np.random.default_rng(0)
    actions = sphere(3, 10, seed=1)[rng.integers(3, size=600)] + width * rng.normal(size=(600, 10))
    expect_within_bounds(actions, rank=10)


@pytest.mark.parametrize("noise", [1e-12, 1e-15])
@pytest.mark.parametrize("axes", ["along the axes", "turned"])
def test_low_rank_with_noise(noise, axes):
    plane = np.eye(4, 15) if axes == "along the axes" else sphere(4, 15, seed=1)
    clean = sphere(500, 4) @ plane
    noisy = clean + noise * np.random.default_rng(2).normal(size=clean.shape)
    expect_within_bounds(noisy, rank=4)


@pytest.mark.parametrize("exponent", np.arange(-12, -5, 0.25).tolist())
def test_noise_at_the_edge_of_the_rank_tolerance(exponent):
    rng = np.random.default_rng(3)
    actions = sphere(300, 4) @ sphere(4, 12, seed=1)
    actions += 10.0**exponent * rng.normal(size=actions.shape) * rng.random(12)
    design = near_g_optimal(actions)
    assert design.certificate.holds
    assert design.rank == design.certificate.rank
    assert exponent < -7 or design.rank == 12


def test_corners_of_a_cube_where_many_leverages_tie():
    cube = np.array(np.meshgrid(*[[-1.0, 1.0]] * 8)).reshape(8, -1).T
    expect_within_bounds(cube, rank=8)
