"""Covers: every point of the set is near a point of the cover, whose size is known in advance."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.design import cover, cover_size
from dpbandits.errors import InvalidValue

KINDS = ["box", "ball", "simplex"]


def points_of(kind, dimension, count=3000):
    """Random points of the set, many of them on its boundary."""
    rng = np.random.default_rng(1)
    if kind == "simplex":
        return np.vstack([rng.dirichlet(np.full(dimension, a), count // 3) for a in (0.1, 0.5, 1)])
    if kind == "box":
        inside = rng.uniform(-1, 1, (count, dimension))
        inside[: count // 3] = np.sign(inside[: count // 3])
        return inside / np.sqrt(dimension)
    rows = rng.normal(size=(count, dimension))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[: count // 2] *= rng.random((count // 2, 1)) ** (1 / dimension)
    return rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("dimension", "radius"), [(1, 0.3), (2, 0.05), (2, 0.9), (3, 0.2), (4, 0.35), (5, 0.5), (3, 1.5)]
)
def test_every_point_is_within_the_radius(kind, dimension, radius):
    found = cover(kind, dimension=dimension, radius=radius)
    assert found.radius <= radius
    assert len(found.points) == cover_size(kind, dimension=dimension, radius=radius)
    Actions(found.points)  # distinct, and in the unit ball
    points = points_of(kind, dimension)
    squares = (points**2).sum(1)[:, None] + (found.points**2).sum(1) - 2 * points @ found.points.T
    nearest = np.sqrt(np.maximum(squares.min(axis=1), 0))
    assert nearest.max() <= found.radius + 1e-7
    assert nearest.max() >= 0.5 * found.radius or kind == "ball"


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_point_loses_no_more_than_is_stated(kind):
    found = cover(kind, dimension=3, radius=0.2)
    points = points_of(kind, 3)
    for theta in np.random.default_rng(2).normal(size=(200, 3)):
        lost = (points @ theta).max() - (found.points @ theta).max()
        assert lost <= found.loss * np.linalg.norm(theta) + 1e-12


def test_points_of_the_sets():
    assert cover("simplex", dimension=3, radius=0.41).points.sum(axis=1) == pytest.approx(1)
    assert (cover("simplex", dimension=3, radius=0.2).points >= 0).all()
    assert np.abs(cover("box", dimension=3, radius=0.2).points).max() < 1 / np.sqrt(3)
    assert cover("ball", dimension=4, radius=1).points.tolist() == [[0, 0, 0, 0]]
    assert not cover("ball", dimension=2, radius=0.3).points.flags.writeable


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [100, 10_000])
def test_too_many_points_are_refused_and_the_suggested_radius_works(kind, limit):
    with pytest.raises(InvalidValue, match=f"for {limit:,} points") as caught:
        cover(kind, dimension=4, radius=0.01, count_limit=limit)
    enough = float(caught.value.expected.split()[2])
    assert len(cover(kind, dimension=4, radius=enough, count_limit=limit).points) <= limit


def test_a_simplex_of_many_dimensions_may_need_a_radius_above_two():
    with pytest.raises(InvalidValue, match="for 100 points") as caught:
        cover("simplex", dimension=20, radius=0.5, count_limit=100)
    enough = float(caught.value.expected.split()[2])
    assert len(cover("simplex", dimension=20, radius=enough, count_limit=100).points) <= 100


def test_a_limit_that_no_radius_meets_is_named():
    with pytest.raises(InvalidValue, match="count_limit: got 5, expected at least 20"):
        cover("simplex", dimension=20, radius=0.5, count_limit=5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hopeless_cover_is_refused_at_once(kind):
    with pytest.raises(InvalidValue, match="at least 10\\^"):
        cover(kind, dimension=60, radius=0.05)


@pytest.mark.parametrize(
    "wrong", [{"kind": "torus"}, {"dimension": 0}, {"radius": 0.0}, {"radius": -1.0}, {"radius": 1e-9}]
)
def test_what_cannot_be_covered_is_named(wrong):
    (name,) = wrong
    options = {"kind": "box", "dimension": 2, "radius": 0.5} | wrong
    with pytest.raises(InvalidValue, match=name):
        cover(options.pop("kind"), **options)
