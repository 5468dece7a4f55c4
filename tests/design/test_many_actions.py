"""The search over many actions, which reads them about once, and its certificate."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.design import certify, near_g_optimal, support_bound
from dpbandits.design._leverage import factorise, raised_32
from dpbandits.design._verifier import Verifier
from dpbandits.errors import DesignError, InvalidValue

COUNT = 20_000


def sphere(count, dimension, seed=0):
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def brute_force(actions, support, weights):
    rows = actions[support]
    inverse = np.linalg.inv(rows.T @ (np.asarray(weights)[:, None] * rows))
    return np.einsum("ij,jk,ik->i", actions, inverse, actions)


def expect_within_bounds(actions, rank, **options):
    design = near_g_optimal(actions, **options)
    tolerance = options.get("tolerance", 2.0)
    fresh = certify(actions, design.support, design.weights, tolerance=tolerance)
    assert fresh.holds
    assert design.certificate.holds
    assert design.rank == design.certificate.rank == fresh.rank == rank
    assert fresh.g <= design.certificate.g * (1 + 1e-9) <= tolerance * rank * (1 + 1e-9)
    if design.certificate.g_is_exact:
        assert design.certificate.g == pytest.approx(fresh.g, rel=1e-9)
    assert (np.diff(design.support) > 0).all()
    assert design.weights.min() > 0
    assert design.weights.sum() == pytest.approx(1, abs=1e-12)
    assert design.basis.T @ design.basis == pytest.approx(np.eye(rank), abs=1e-12)
    return design


FAMILIES = {
    "ball": lambda rng, shape: sphere(*shape) * rng.random((shape[0], 1)) ** (1 / shape[1]),
    "gauss": lambda rng, shape: rng.normal(size=shape),
    "heavy entries": lambda rng, shape: rng.standard_t(2.5, size=shape),
    "heavy rows": lambda rng, shape: sphere(*shape) * rng.pareto(2, (shape[0], 1)),
    "cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "corners": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
}


@pytest.mark.parametrize("tolerance", [2.0, 1.3, 1.05])
@pytest.mark.parametrize("family", FAMILIES)
def test_families(family, tolerance):
    actions = FAMILIES[family](np.random.default_rng(7), (COUNT, 12))
    design = expect_within_bounds(actions, rank=12, tolerance=tolerance)
    assert design.certificate.g >= brute_force(actions, design.support, design.weights).max() * (1 - 1e-9)
    assert design.support.size <= max(support_bound(12), 78)


@pytest.mark.parametrize("family", ["ball", "gauss", "heavy entries", "heavy rows"])
def test_rows_are_read_about_once(family):
    actions = FAMILIES[family](np.random.default_rng(3), (100_000, 20))
    design = expect_within_bounds(actions, rank=20)
    assert design.certificate.passes <= 1.3
    assert design.support.size <= 3.3 * 20


def test_a_tolerance_of_one_percent():
    actions = np.random.default_rng(0).normal(size=(COUNT, 10))
    design = expect_within_bounds(actions, rank=10, tolerance=1.01)
    assert design.support.size <= 55


def test_the_samples_are_fixed_unless_a_generator_is_given():
    actions = sphere(COUNT, 8)
    first, again = near_g_optimal(actions), near_g_optimal(actions.copy())
    assert first.support.tobytes() == again.support.tobytes()
    assert first.weights.tobytes() == again.weights.tobytes()
    other = near_g_optimal(actions, rng=np.random.default_rng(5))
    same = near_g_optimal(actions, rng=np.random.default_rng(5))
    assert other.support.tolist() == same.support.tolist() != first.support.tolist()


def test_a_warm_start_that_is_good_enough_is_kept():
    actions = sphere(COUNT, 8)
    first = near_g_optimal(actions)
    second = near_g_optimal(actions, warm_start=first)
    assert second.support.tolist() == first.support.tolist()
    assert second.weights == pytest.approx(first.weights)
    kept = np.setdiff1d(np.arange(COUNT), first.support[:4])
    third = near_g_optimal(actions[kept], warm_start=near_g_optimal(actions[kept][:5000]))
    assert third.certificate.holds


@pytest.mark.parametrize("turned", [False, True])
def test_one_row_of_many_off_a_hyperplane_by_a_millionth_is_a_dimension(turned):
    actions = sphere(COUNT, 6)
    actions[:, 5] = 0
    actions[13_579, 5] = 1e-6
    if turned:
        actions = actions @ np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    design = expect_within_bounds(actions, rank=6)
    assert 13_579 in design.support


@pytest.mark.parametrize("noise", [0, 1e-15, 1e-12])
def test_low_rank(noise):
    clean = sphere(COUNT, 4) @ sphere(4, 9, seed=1)
    actions = clean + noise * np.random.default_rng(2).normal(size=clean.shape)
    design = expect_within_bounds(actions, rank=4)
    assert actions @ design.basis @ design.basis.T == pytest.approx(actions, abs=1e-10)


def test_zero_rows_duplicates_and_columns_that_are_nearly_always_zero():
    expect_within_bounds(np.vstack([np.zeros((COUNT, 5)), sphere(40, 5)]), rank=5)
    expect_within_bounds(np.tile(sphere(30, 5), (500, 1)), rank=5)
    expect_within_bounds(np.eye(9)[np.minimum(np.arange(COUNT) // 2500, 8)], rank=8)
    assert near_g_optimal(np.zeros((COUNT, 3))).rank == 0


def test_one_dimension():
    actions = np.random.default_rng(0).normal(size=(COUNT, 1))
    design = expect_within_bounds(actions, rank=1)
    assert design.support.size == 1


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-25, 1e25, 1e150, 1e300])
def test_overall_scale(scale):
    expect_within_bounds(sphere(COUNT, 8) * scale, rank=8)


def test_column_scales():
    actions = sphere(COUNT, 9) * np.logspace(0, -8, 9)
    expect_within_bounds(actions, rank=9)
    expect_within_bounds(actions @ np.linalg.qr(np.random.default_rng(1).normal(size=(9, 9)))[0], rank=9)


@pytest.mark.parametrize(("scale", "rank"), [(1e9, 8), (1e200, 1)])
def test_one_giant_among_many(scale, rank):
    expect_within_bounds(np.vstack([sphere(COUNT, 8), scale * sphere(1, 8, seed=5)]), rank=rank)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 12_345, COUNT - 1])
def test_an_entry_that_is_not_finite_is_named(row, bad):
    actions = sphere(COUNT, 4)
    actions[row] = 0
    actions[row, 2] = bad
    with pytest.raises(InvalidValue, match=rf"actions\[{row}, 2\]"):
        near_g_optimal(actions)
    support, weights = [1, 2, 3, 4], np.full(4, 0.25)
    with pytest.raises(InvalidValue, match=rf"actions\[{row}, 2\]"):
        certify(actions, support, weights)


def test_a_memory_mapped_file_and_other_types_of_numbers(tmp_path):
    actions = sphere(COUNT, 6)
    np.save(tmp_path / "actions.npy", actions)
    mapped = np.load(tmp_path / "actions.npy", mmap_mode="r")
    expected = near_g_optimal(actions)
    for same in (mapped, np.asfortranarray(actions), actions[::-1][::-1]):
        assert near_g_optimal(same).support.tolist() == expected.support.tolist()
    single = actions.astype(np.float32)
    assert near_g_optimal(single).certificate.g == near_g_optimal(single.astype(float)).certificate.g
    expect_within_bounds(np.random.default_rng(0).integers(-3, 4, (COUNT, 5)), rank=5)


def test_an_unattainable_support_is_an_error():
    with pytest.raises(DesignError, match="rank 20: .*(exceeds|outside)"):
        near_g_optimal(sphere(COUNT, 20), max_support=20)


def test_a_smaller_support_can_be_asked_for():
    actions = sphere(COUNT, 10)
    size = near_g_optimal(actions, tolerance=1.3).support.size
    assert near_g_optimal(actions, tolerance=1.4, max_support=size - 2).support.size <= size - 2


def test_bounds_carried_from_design_to_design_are_never_too_low():
    rng = np.random.default_rng(4)
    actions = rng.normal(size=(COUNT, 7)) * np.logspace(0, 3, 7)
    verifier = Verifier(actions)
    for size in (30, 300, 12, 40, 9):
        support = rng.choice(COUNT, size, replace=False)
        weights = rng.dirichlet(np.ones(size))
        verifier.measure(support, weights, tolerance=rng.choice([0.0, 1.5, 40.0]))
        leverages = brute_force(actions, support, weights)
        assert (verifier._bounds >= leverages * (1 - 1e-9)).all()


@pytest.mark.parametrize("condition", [1.0, 30.0, 1e3])
def test_the_bound_of_32_bit_errors_holds(condition):
    rng = np.random.default_rng(6)
    turn = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    actions = (rng.normal(size=(COUNT, 12)) * np.geomspace(1, condition, 12)) @ turn
    support, weights = np.arange(40), np.full(40, 1 / 40)
    verifier = Verifier(actions)
    verifier.measure(support, weights)
    leverages = brute_force(actions, support, weights)
    assert (verifier._bounds >= leverages * (1 - 1e-9)).all()
    assert (verifier._bounds <= leverages * 1.05).all()
    assert verifier.g == pytest.approx(leverages.max(), rel=1e-9)


def test_32_bit_numbers_are_not_used_where_their_errors_would_show():
    rows = np.random.default_rng(0).normal(size=(50, 5))
    fine = factorise(rows, np.full(50, 1 / 50))
    assert 1 < raised_32(5, fine) < 1.001
    thin = factorise(rows * np.array([1, 1, 1, 1, 1e-7]), np.full(50, 1 / 50))
    assert raised_32(5, thin) is None


@pytest.mark.parametrize("planted", ["weights", "rows", "one action"])
def test_planted_errors_are_rejected_among_many(planted):
    actions = sphere(COUNT, 10)
    design = near_g_optimal(actions)
    support, weights = design.support.copy(), design.weights.copy()
    if planted == "weights":
        weights[1:] = 1e-3
        weights[0] = 1 - weights[1:].sum()
    elif planted == "rows":
        support = np.setdiff1d(np.arange(100), support)[: support.size]
    else:
        actions[np.setdiff1d(np.arange(COUNT), support)[777]] *= 3
    assert "exceeds 2 · rank" in certify(actions, support, weights).problems[0]


def test_a_support_that_misses_the_only_row_off_the_plane_is_rejected():
    actions = sphere(COUNT, 6)
    actions[:, 5] = 0
    design = near_g_optimal(actions)
    actions[13_579, 5] = 1e-6
    certificate = certify(actions, design.support, design.weights)
    assert certificate.rank == 6
    assert "outside the span" in certificate.problems[0]


@pytest.mark.parametrize("dimension", [1, 5])
@pytest.mark.parametrize("noise", [1e-14, 1e-12, 1e-9])
def test_a_sample_that_holds_noise_only(dimension, noise):
    """Found by fuzzing: nearly all rows are noise, well conditioned in their own units."""
    rng = np.random.default_rng(0)
    actions = noise * rng.normal(size=(COUNT, dimension))
    actions[rng.choice(COUNT, 30, replace=False)] += rng.normal(size=(30, dimension))
    expect_within_bounds(actions, rank=dimension)
