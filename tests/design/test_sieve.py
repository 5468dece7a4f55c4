"""Rows that the sieve skips: their bounds hold, and no high leverage is missed."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.design import Selection, certify, near_g_optimal
from dpbandits.design._frame import support_frame
from dpbandits.design._leverage import NarrowScan, Sieve, factorise, raised_32
from dpbandits.design._rows import as_rows, blocks
from dpbandits.errors import InvalidValue


def heavy(count, dimension, seed, scales=None):
    rows = np.random.default_rng(seed).standard_t(2.5, size=(count, dimension))
    return rows if scales is None else rows * scales


def leverages(rows, support, weights):
    inverse = np.linalg.inv(rows[support].T @ (weights[:, None] * rows[support]))
    return np.einsum("ij,jk,ik->i", rows, inverse, rows)


@pytest.mark.parametrize("scales", [None, np.geomspace(1e-4, 1e3, 6)])
@pytest.mark.parametrize("seed", range(5))
def test_no_leverage_exceeds_its_bound_and_most_rows_are_spared(seed, scales, monkeypatch):
    rows = heavy(20_000, 6, seed, scales)
    design = near_g_optimal(rows)
    supported = rows[design.support]
    frame = support_frame(supported)
    factor = factorise(frame.coordinates(supported), design.weights)
    scanned = []
    original = NarrowScan.__call__

    def counted(self, block, out):
        scanned.append(len(block))
        return original(self, block, out)

    monkeypatch.setattr(NarrowScan, "__call__", counted)
    sieve, bounds = Sieve(frame, factor), np.empty(len(rows), dtype=np.float32)
    largest = max(sieve(block, bounds[here]) for here, block in blocks(rows))
    exact = leverages(rows, design.support, design.weights)
    assert largest == bounds.max()
    assert (bounds * raised_32(6, factor) >= exact).all()
    assert sum(scanned) < 0.1 * len(rows)
    high = exact > 3  # half of the rank: these are measured, not bounded
    np.testing.assert_allclose(bounds[high], exact[high], rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_g_is_that_of_all_rows(seed):
    rows = heavy(30_000, 5, seed)
    design = near_g_optimal(rows)
    found = certify(rows, design.support, design.weights)
    assert found.g == pytest.approx(leverages(rows, design.support, design.weights).max(), rel=1e-9)
    assert found.holds


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_entry_that_is_no_number_is_named(bad):
    rows = heavy(30_000, 5, 1)
    rows[17_001, 3] = bad
    with pytest.raises(InvalidValue, match=r"actions\[17001, 3\]"):
        near_g_optimal(rows)


def test_a_row_that_is_huge_in_a_thin_direction_is_found():
    """Most rows are skipped, but not a row of ordinary length that is long in an unusual direction."""
    rng = np.random.default_rng(0)
    rows = heavy(30_000, 5, 2)
    rows[:, 4] *= 1e-3
    rows[rng.integers(30_000)] = [0, 0, 0, 0, 50]
    design = near_g_optimal(rows)
    assert leverages(rows, design.support, design.weights).max() <= 10 * (1 + 1e-9)


def test_a_selection_has_the_design_of_a_copy_and_is_read_by_rows():
    rows = heavy(12_000, 5, 3)
    for kept in (np.r_[0:6000, 6001:12_000], np.arange(0, 12_000, 2), np.arange(0, 12_000, 11)):
        ours, copied = near_g_optimal(Selection(rows, kept)), near_g_optimal(rows[kept])
        np.testing.assert_array_equal(ours.support, copied.support)
        np.testing.assert_array_equal(ours.weights, copied.weights)
    selection = as_rows(Selection(rows, np.r_[5:9, 20]))
    assert selection.shape == (5, 5)
    np.testing.assert_array_equal(selection[0:5], rows[[5, 6, 7, 8, 20]])
    assert np.shares_memory(selection[0:4], rows)
    np.testing.assert_array_equal(selection[np.array([4, 0])], rows[[20, 5]])
