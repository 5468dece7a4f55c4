"""The result of a search for a design."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._certificate import Certificate


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Weighted actions: row `support[i]` has weight `weights[i]`, and the weights sum to one.

    All arrays are read-only. The certificate states what the design achieves.
    """

    support: IntArray
    weights: FloatArray
    rank: int
    """The dimension of the span of all actions."""
    basis: FloatArray
    """Orthonormal columns spanning all actions."""
    certificate: Certificate

    def __post_init__(self) -> None:
        for array in (self.support, self.weights, self.basis):
            array.setflags(write=False)
