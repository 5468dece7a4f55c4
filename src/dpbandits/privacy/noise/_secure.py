"""Noise for everything that leaves a machine: whole numbers, drawn exactly, that nobody can draw again.

Its uniform bits are the operating system's (and, inside OpenDP, OpenSSL's, which the operating system seeds).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Literal, cast, final

import numpy as np

from dpbandits._arrays import IntArray
from dpbandits.errors import InvalidValue
from dpbandits.privacy.noise._coins import Coins
from dpbandits.privacy.noise._exact import ExactNoise
from dpbandits.privacy.noise._keyed import KeyedNoise
from dpbandits.privacy.noise._ranges import checked_scale, checked_shape
from dpbandits.privacy.noise._sources import NoiseSource


@final
class SecureNoise(ExactNoise):
    """The operating system's generator. It has no seed and no state, and no floating-point noise."""

    __slots__ = ()
    _coins = Coins()

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(x) ∝ exp(−x²/(2·scale²)) on the integers, by OpenDP."""
        size = checked_shape(shape)
        return _from_opendp("gaussian", checked_scale(scale), int(np.prod(size))).reshape(size)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """P(x) ∝ exp(−|x|/scale) on the integers, by OpenDP."""
        size = checked_shape(shape)
        return _from_opendp("laplace", checked_scale(scale), int(np.prod(size))).reshape(size)


def require_secure(noise: NoiseSource) -> SecureNoise | KeyedNoise:
    """The source itself, unless it is fit for simulations only; called before draws are sent away."""
    if type(noise) is not SecureNoise and type(noise) is not KeyedNoise:
        raise InvalidValue(
            "noise", type(noise).__name__, "SecureNoise or KeyedNoise, for what leaves a machine"
        )
    return noise


def _from_opendp(kind: Literal["gaussian", "laplace"], scale: float, count: int) -> IntArray:
    """Noise on a vector of zeros: one call, whose scale OpenDP takes for the fraction that a float is."""
    if count == 0:
        return np.empty(0, dtype=np.int64)
    return np.array(_measurement(kind, scale)([0] * count), dtype=np.int64)


@lru_cache(maxsize=64)
def _measurement(kind: Literal["gaussian", "laplace"], scale: float) -> Callable[[list[int]], list[int]]:
    try:
        import opendp.prelude as dp
    except ImportError:
        remedy = "an installed opendp: pip install 'dpbandits[secure]'"
        raise InvalidValue("opendp", "no such package", remedy) from None
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        made = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=scale)
    else:
        made = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=scale)
    return cast("Callable[[list[int]], list[int]]", made)
