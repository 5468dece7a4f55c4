"""Public random directions: unit vectors that anyone can compute from a seed and an index.

Direction `index` of the list with a given seed is a vector of normal variables, divided by its length. The
normal variables come in pairs from 64-bit words, by the transformation of Box and Muller. The words are the
output of SplitMix64 (Steele, Lea and Flood 2014), started at `mix(seed + γ)`:

    word i of direction j = mix(mix(seed + γ) + (2·h·j + i + 1)·γ),   h = ⌈coordinates/2⌉, i = 0 … 2h − 1
    γ = 0x9E3779B97F4A7C15, all sums modulo 2⁶⁴
    mix(z): z ^= z >> 30; z *= 0xBF58476D1CE4E5B9; z ^= z >> 27; z *= 0x94D049BB133111EB; z ^= z >> 31

    pair of words (a, b): u = (⌊a/2¹¹⌋ + 1)·2⁻⁵³, w = ⌊b/2¹¹⌋·2⁻⁵³,
    √(−2·log u)·cos(2πw) and √(−2·log u)·sin(2πw) are two normal variables

Nothing here is secret, and privacy does not depend on it. The results of two machines may differ in the last
bits of a float. They agree to within 10⁻¹⁵, which is sufficient.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbandits._arrays import FloatArray

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def directions(seeds: NDArray[np.uint64], indices: NDArray[np.uint64], coordinates: int) -> FloatArray:
    """Return unit vectors, uniformly distributed on the sphere for random seeds.

    Example: `directions(np.uint64([7]), np.uint64([0]), 3)` is one vector of three coordinates.

    Args:
        seeds: The seed of each list.
        indices: The index of each direction in its list. The shapes of seeds and indices are broadcast.
        coordinates: The number of coordinates, at least 2.

    Returns:
        An array with one more axis than the arguments, of length `coordinates`.
    """
    pairs = -(-coordinates // 2)
    words = np.arange(1, 2 * pairs + 1, dtype=np.uint64)
    places = indices[..., None] * np.uint64(2 * pairs) + words
    drawn = _mixed(_mixed(seeds + _STEP)[..., None] + places * _STEP) >> np.uint64(11)
    lengths = np.sqrt(-2 * np.log((drawn[..., ::2] + np.uint64(1)) * 2.0**-53))
    angles = drawn[..., 1::2] * (2.0**-53 * 2 * np.pi)
    normals = np.empty(drawn.shape)
    normals[..., ::2], normals[..., 1::2] = lengths * np.cos(angles), lengths * np.sin(angles)
    normals = normals[..., :coordinates]
    # All entries are zero only if every uniform variable is exactly 1: probability 2⁻⁵³ per pair.
    lengths = np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(normals / lengths, dtype=np.float64)


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the output function of SplitMix64."""
    mixed = (words ^ (words >> np.uint64(30))) * _MULTIPLIERS[0]
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MULTIPLIERS[1]
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
