"""Secure noise for values that leave a machine: integers, drawn exactly and not reproducible.

The uniform bits come from the operating system (inside OpenDP from OpenSSL, which the operating system
seeds).
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
    """Exact samplers on the operating system's generator.

    It has no seed and no state, and offers no floating-point noise.

    Example:
        >>> from dpbandits.privacy import SecureNoise
        >>> noise = SecureNoise()
        >>> noise.simulated, noise.discrete_laplace(2.0, (5,)).shape
        (False, (5,))
    """

    __slots__ = ()
    _coins = Coins()

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−x²/(2·scale²)) on the integers, by OpenDP."""
        return _from_opendp("gaussian", scale, shape)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> IntArray:
        """Draw P(x) ∝ exp(−|x|/scale) on the integers, by OpenDP."""
        return _from_opendp("laplace", scale, shape)


def require_secure(noise: NoiseSource) -> SecureNoise | KeyedNoise:
    """Return the source, or raise an error if it may be used in simulations only.

    Call it before draws are sent to another party.

    Args:
        noise: A noise source.

    Returns:
        The same source.

    Raises:
        InvalidValue: Unless the source is a `SecureNoise` or a `KeyedNoise`.
    """
    if type(noise) is not SecureNoise and type(noise) is not KeyedNoise:
        expected = "SecureNoise or KeyedNoise, for what leaves a machine"
        raise InvalidValue("noise", type(noise).__name__, expected)
    return noise


def _from_opendp(kind: Literal["gaussian", "laplace"], scale: float, shape: tuple[int, ...]) -> IntArray:
    """Draw noise in one call, as noise on a vector of zeros.

    OpenDP converts the scale to the exact fraction that the float represents.
    """
    zeros = np.zeros(checked_shape(shape), dtype=np.int64)
    wanted = checked_scale(scale)
    if zeros.size == 0:
        return zeros
    return np.array(_measurement(kind, wanted)([0] * zeros.size), dtype=np.int64).reshape(zeros.shape)


@lru_cache(maxsize=64)
def _measurement(kind: Literal["gaussian", "laplace"], scale: float) -> Callable[[list[int]], list[int]]:
    """Return OpenDP's mechanism for that noise; building one is slow, so it is cached."""
    try:
        import opendp.prelude as dp
    except ImportError:
        remedy = "an installed opendp: pip install '.[secure]' in a clone of dpbandits"
        raise InvalidValue("opendp", "no such package", remedy) from None
    dp.enable_features("contrib")
    vectors = dp.vector_domain(dp.atom_domain(T="i64"))
    if kind == "gaussian":
        made = dp.m.make_gaussian(vectors, dp.l2_distance(T=float), scale=scale)
    else:
        made = dp.m.make_laplace(vectors, dp.l1_distance(T="i64"), scale=scale)
    return cast("Callable[[list[int]], list[int]]", made)
