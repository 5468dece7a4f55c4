"""The tail of a sum of independent sub-Gaussian variables, one for each of many people.

Chernoff's bound exp(−z²/2) is about z·√(2π) times the normal tail. For a sum over many independent people the
tail is nearly the normal one: after exponential tilting the sum is nearly normal by Berry and Esseen, because
sub-Gaussian variables have bounded third and fourth moments. The section *Sums over people* of docs/theory.md
has the proof and the notation.
"""

from __future__ import annotations

import math

import numpy as np

from dpbandits._arrays import FloatArray

BERRY_ESSEEN = 0.56  # for independent summands that need not have the same distribution (Shevtsova 2010)
_RATES = np.geomspace(0.05, 4.0, 80)[:, None]  # λ in the bounds on moments; every one is valid
_COARSE, _FINE = 12, 180  # intervals of the variance after tilting, below and above _TURN
_TURN = 0.6
_BLOCK = 0.5  # bounds on moments are computed for the largest z of a block of this length
_SLACK = 1e-9
_MOST = 100.0  # larger exponents have useless bounds, and would overflow


def tail_of_sum(people: float, z: FloatArray) -> FloatArray:
    """Return bounds on P(G ≥ z) for a sum G over people whose proxies add up to 1, in equal shares.

    Args:
        people: The number n of people.
        z: Values above 0, in increasing order.
    """
    found = np.exp(-(z**2) / 2)
    for top in np.arange(math.floor(z[0] / _BLOCK) + 1, math.ceil(z[-1] / _BLOCK) + 1) * _BLOCK:
        block = (z > top - _BLOCK) & (z <= top)
        if block.any():
            found[block] = np.minimum(found[block], _by_tilting(people, z[block][:, None], float(top)))
    return np.asarray(found, dtype=np.float64)


def _by_tilting(people: float, z: FloatArray, top: float) -> FloatArray:
    """Return the largest bound over the intervals of V, the variance after tilting by z ≤ `top`.

    In each interval every term is taken at the end where it is larger.
    """
    from scipy.special import ndtr

    tilt = top / math.sqrt(people)
    edges = _edges(tilt)
    low, high = edges[:-1], edges[1:]
    fourth, third = _moments(low, tilt)
    steepness = np.minimum(np.sqrt(high * fourth), third) / math.sqrt(people)
    reach = float(steepness.max()) * top  # how far the variance may move between the tilts 0 and z
    near = (low[None, :] <= high[:, None] + reach) & (high[None, :] >= low[:, None] - reach)
    slope = np.maximum(np.where(near, steepness, 0.0).max(axis=1), 1e-12)

    shift, _ = _least_integrals(z, low, slope)
    steps = _least_integrals(z, high, slope)
    distance = (z + shift) / np.sqrt(high)
    normal = ndtr(-distance)
    hazard = np.exp(-(distance**2) / 2) / math.sqrt(2 * math.pi) / np.maximum(normal, np.finfo(float).tiny)
    # The first term decreases in r, up to this rate. r is at most k·(z − u).
    rate = np.maximum(z - hazard * (1 - _SLACK) / np.sqrt(high), 0.0)
    first = np.exp(np.minimum(steps[1] + rate * (slope * z**2 / 2 - shift), _MOST)) * normal
    exponent = np.minimum(z**2 / 2, z**2 * high / 2 - z * steps[0] + steps[1])  # of the tilted sum, K(z)
    chernoff = np.exp(exponent - z**2)
    error = BERRY_ESSEEN * np.sqrt(fourth / people) / np.maximum(low, 1e-12)
    before = high + slope * z  # the variance before tilting
    bound = np.minimum(first + 2 * np.minimum(error, 1.0) * chernoff, chernoff)
    bound = np.minimum(bound, before / (before + z**2))
    possible = low <= 1 + slope * z
    return np.asarray(np.where(possible, bound, 0.0).max(axis=1), dtype=np.float64)


def _edges(tilt: float) -> FloatArray:
    """Return the ends of intervals that cover all variances after tilting by at most `tilt`."""
    largest = float(np.min(2 * (_growth(tilt) - 1) / _RATES**2))
    fine = np.linspace(_TURN, max(largest, 1.0), _FINE + 1)
    return np.concatenate([np.linspace(0, _TURN, _COARSE + 1)[:-1], fine])


def _growth(tilt: float) -> FloatArray:
    """Return bounds on E cosh(λW), W the deviation of one variable of proxy 1 from its mean after tilting."""
    return np.asarray(np.exp((_RATES**2 + tilt**2) / 2) * np.cosh(_RATES * tilt))


def _moments(variances: FloatArray, tilt: float) -> tuple[FloatArray, FloatArray]:
    """Return bounds on E W⁴ and |E W³| for variances of at least the given ones."""
    halves = _RATES**2 * variances / 2
    fourth = 24 * (_growth(tilt) - 1 - halves) / _RATES**4
    third = 6 * (np.exp((_RATES**2 + tilt**2) / 2 + _RATES * tilt) - 1 - halves) / _RATES**3
    return np.maximum(fourth.min(axis=0), 0.0), np.maximum(third.min(axis=0), 0.0)


def _least_integrals(
    z: FloatArray, variances: FloatArray, slope: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return ∫ r(u) du and ∫ u·r(u) du over [0, z] for r(u) = max(V − 1 − k·u, −k·(z − u)), k the slope."""
    excess = variances - 1
    turn = np.clip((z + excess / slope) / 2, 0.0, z)
    plain = excess * turn - slope * (turn**2 + (z - turn) ** 2) / 2
    inner = excess * turn**2 / 2 - slope * turn**3 / 3
    outer = slope * (z**3 / 6 - z * turn**2 / 2 + turn**3 / 3)
    return plain, inner - outer
