"""Exact samplers of every noise distribution: whole numbers only, no floating-point noise.

Floating-point noise has gaps: some outputs are possible for one input and impossible for a neighbouring one,
which breaks privacy. The samplers here draw from the exact distribution, not from an approximation.
_secure.py and _keyed.py decide where the bits come from.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

import numpy as np

from dpbandits._arrays import BoolArray, FloatArray, IntArray
from dpbandits.privacy.noise import _discrete as discrete, _ranges as ranges
from dpbandits.privacy.noise._ball_norm_point import Uniforms, exact_ball_point
from dpbandits.privacy.noise._coins import BLOCK, Coins, first_accepted
from dpbandits.privacy.noise._max_norm_radius import exact_offset
from dpbandits.privacy.noise._sources import BitArray


class ExactNoise:
    """The samplers that `SecureNoise` and `KeyedNoise` share; each sets its own `_coins`."""

    __slots__ = ()
    _coins: Coins

    @property
    def simulated(self) -> Literal[False]:
        """Always false: the draws may leave the machine."""
        return False

    def bernoulli(self, probabilities: FloatArray) -> IntArray:
        """Draw one coin, 0 or 1, for each probability, without rounding it."""
        wanted = ranges.checked_probabilities(probabilities)
        return self._coins.flip(wanted.reshape(-1)).astype(np.int64).reshape(wanted.shape)

    def below(self, bound: int, shape: tuple[int, ...]) -> IntArray:
        """Draw uniform integers in {0 … bound − 1}, by rejection."""
        size = ranges.checked_shape(shape)
        bounds = np.full(int(np.prod(size)), ranges.checked_integers(bound), dtype=np.uint64)
        return self._coins.below(bounds).astype(np.int64).reshape(size)

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> IntArray:
        """Draw the number of heads among `trials` coins, without rounding the probability."""
        left, chance = ranges.checked_trials(trials), ranges.checked_probability(probability)
        size = ranges.checked_shape(shape)
        count_heads = _fair_heads if chance == 0.5 else _biased_heads
        total = np.zeros(int(np.prod(size)), dtype=np.int64)
        # Draw in blocks, so that memory does not grow with the number of trials.
        most = 8 * max(1, BLOCK // max(1, total.size))
        while left > 0 and total.size:
            total += count_heads(self._coins, min(left, most), chance, total.size)
            left -= most
        return total.reshape(size)

    def poisson(self, mean: float, shape: tuple[int, ...]) -> IntArray:
        """Draw Poisson variables; the mean is rounded to a multiple of 2⁻³². The time grows with the mean."""
        # Poisson(3.2) is the sum of three Poisson(1) and a fourth whose points are each kept with probability
        # 0.2.
        size = ranges.checked_shape(shape)
        whole, rest = divmod(round(ranges.checked_mean(mean) * 2**32), 2**32)
        extra = _poisson_one(self._coins, int(np.prod(size)))
        kept = self._coins.flip(np.full(int(extra.sum()), rest / 2**32))
        total = _heads_by_owner(extra, kept)
        most = max(1, BLOCK // max(1, total.size))
        for start in range(0, whole if total.size else 0, most):
            summands = min(most, whole - start)
            drawn = _poisson_one(self._coins, total.size * summands)
            total += drawn.reshape(total.size, summands).sum(axis=1)
        return total.reshape(size)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−x²/(2·scale²)) on the integers (see _discrete.py)."""
        size = ranges.checked_shape(shape)
        return discrete.gaussian(self._coins, ranges.checked_scale(scale), int(np.prod(size))).reshape(size)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−|x|/scale) on the integers (see _discrete.py)."""
        size = ranges.checked_shape(shape)
        return discrete.laplace(self._coins, ranges.checked_scale(scale), int(np.prod(size))).reshape(size)

    def polya(self, parts: int, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(m) ∝ C(m + 1/parts − 1, m)·exp(−m/scale) on 0, 1, 2 … The time grows with the scale."""
        sharers, size = ranges.checked_parts(parts), ranges.checked_shape(shape)
        decay = 1 / Fraction(ranges.checked_scale(scale, sharers))
        # The acceptance probabilities of `_climb` sum to (1−p)·Σ C(m+r−1, m)p^m = (1−p)^(1−r).
        acceptance = float(-np.expm1(-1 / scale)) ** (1 - 1 / sharers)
        count = int(np.prod(size))
        drawn = first_accepted(count, acceptance, lambda tries: _climb(self._coins, sharers, decay, tries))
        return drawn.reshape(size)

    def box_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Draw rows z with P(z) ∝ exp(−max|z|/scale). _max_norm_radius.py has the derivation."""
        rows, coordinates = ranges.checked_cube(shape)
        laplace = self.discrete_laplace(scale, (rows, coordinates + 1))
        # Given y ≥ 0, y is geometric of ratio q. Given y < 0, so is −1 − y: P(y) ∝ q^|y| = q·q^(−1−y).
        radii = np.where(laplace >= 0, laplace, -1 - laplace).sum(axis=1)
        offsets = [exact_offset(float(scale), coordinates, self._coins.random_bits) for _ in range(rows)]
        radii += np.array(offsets, dtype=np.int64)
        reach = np.repeat(radii, coordinates)
        points: IntArray = self._coins.below((2 * reach + 1).astype(np.uint64)).astype(np.int64) - reach
        return points.reshape(rows, coordinates)

    def ball_norm(self, scale: float, shape: tuple[int, int]) -> IntArray:
        """Draw rows with density ∝ exp(−‖y‖₂/scale), rounded at random (see _ball_norm_point.py)."""
        rows, coordinates = ranges.checked_cube(shape)
        spread, bits = float(ranges.checked_scale(scale)), self._coins.random_bits
        points = [exact_ball_point(spread, coordinates, Uniforms(bits)) for _ in range(rows)]
        return np.array(points, dtype=np.int64).reshape(rows, coordinates)

    def permute_rows(self, bits: BitArray) -> BitArray:
        """Sort each row by uniform 64-bit keys; if two keys of a row are equal, draw new ones."""
        rows, columns = ranges.checked_rows(bits).shape
        permuted = np.empty_like(bits)
        most = max(1, BLOCK // max(1, columns))
        for start in range(0, rows, most):
            block = bits[start : start + most]
            orders = _orders(self._coins, *block.shape)
            permuted[start : start + most] = np.take_along_axis(block, orders, axis=1)
        return permuted


def _orders(coins: Coins, rows: int, columns: int) -> IntArray:
    """Return a uniform random order of the columns for each row."""
    # All orders of distinct keys are equally likely.
    keys = coins.words(rows * columns).reshape(rows, columns)
    orders: IntArray = keys.argsort(axis=1)
    ranked = np.take_along_axis(keys, orders, axis=1)
    tied = np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1))
    if tied.size:
        orders[tied] = _orders(coins, tied.size, columns)
    return orders


def _heads_by_owner(flips: IntArray, heads: BoolArray) -> IntArray:
    """Count the heads of each owner; the first `flips[0]` coins belong to the first owner, and so on."""
    owners = np.repeat(np.arange(flips.size), flips)
    return np.bincount(owners[heads], minlength=flips.size)


def _fair_heads(coins: Coins, trials: int, _half: float, count: int) -> IntArray:
    """Count the ones among `trials` random bits; unused bits of the last byte are cleared."""
    width = (trials + 7) // 8
    drawn = coins.random_bytes(count * width).reshape(count, width).copy()
    drawn[:, -1] >>= np.uint8(8 * width - trials)
    return np.asarray(np.bitwise_count(drawn).sum(axis=1, dtype=np.int64))


def _biased_heads(coins: Coins, trials: int, chance: float, count: int) -> IntArray:
    """Count heads among biased coins, mostly at one byte per coin.

    A coin shows heads if its byte is below ⌊256p⌋ and tails if it is above. If they are equal, a coin with
    the fractional part of 256p decides.
    """
    floor = int(256 * chance)
    if floor == 256:
        return np.full(count, trials, dtype=np.int64)
    drawn = coins.random_bytes(count * trials).reshape(count, trials)
    undecided = (drawn == floor).sum(axis=1, dtype=np.int64)
    late = coins.flip(np.full(int(undecided.sum()), 256 * chance - floor))
    decided: IntArray = (drawn < floor).sum(axis=1, dtype=np.int64)
    return decided + _heads_by_owner(undecided, late)


def _poisson_one(coins: Coins, count: int) -> IntArray:
    """Draw Poisson(1) variables; a fraction e/4 of the attempts succeeds."""
    return first_accepted(count, np.e / 4, lambda tries: _poisson_attempts(coins, tries))


def _poisson_attempts(coins: Coins, count: int) -> IntArray:
    """Propose k with probability 2^−(k+1), and accept with 2^(k−1)/k!: together 1/(4·k!).

    The proposal counts the heads before the first tails. The acceptance probability is 1/2 for k = 0, and
    otherwise the product of 2/i for i = 2..k. Each factor is a coin, flipped as k grows.
    """
    result = np.zeros(count, dtype=np.int64)
    climbing = coins.fair(count)
    result[~climbing & coins.fair(count)] = -1
    live, height = np.flatnonzero(climbing), 1
    while live.size:
        result[live] = height
        live, height = live[coins.fair(live.size)], height + 1
        kept = coins.below(np.full(live.size, height, dtype=np.uint64)) < 2
        result[live[~kept]] = -1
        live = live[kept]
    return result


def _climb(coins: Coins, parts: int, decay: Fraction, count: int) -> IntArray:
    """Make attempts at a Pólya variable with r = 1/parts and p = exp(−decay); −1 for failed ones.

    At height m, a coin of p decides whether the attempt climbs on; otherwise its result is m. An attempt that
    climbs must also pass a coin of (m + r)/(m + 1), or it fails. So the result is m with probability
    (1−p)·p^m·Π_{i=1..m} (i−1+r)/i = (1−p)·p^m·C(m+r−1, m). All remaining attempts are at the same height, so
    several steps are drawn at once, and those after the first tails are ignored.
    """
    result = np.full(count, -1, dtype=np.int64)
    live, height, steps = np.arange(count), 0, 1
    while live.size:
        climbs = coins.exponential(decay, live.size * steps).reshape(live.size, steps)
        heights = np.arange(height, height + steps, dtype=np.uint64)
        above = np.tile((heights + np.uint64(1)) * np.uint64(parts), live.size)
        at = np.tile(heights * np.uint64(parts) + np.uint64(1), live.size)
        holds = coins.rational(at, above).reshape(live.size, steps)
        stop, fall = _first_tails(climbs), _first_tails(holds)
        stopped = (stop < steps) & (stop <= fall)
        result[live[stopped]] = height + stop[stopped]
        live = live[(stop == steps) & (fall == steps)]
        height += steps
        # Doubling the number of steps: few rounds for large scales, and at most twice the draws that are
        # needed.
        steps = min(height, max(1, BLOCK // max(1, live.size)))
    return result


def _first_tails(heads: BoolArray) -> IntArray:
    """Return the index of the first tails of each row, or the number of columns if there is none."""
    return np.asarray(np.where(heads.all(axis=1), heads.shape[1], heads.argmin(axis=1)))
