"""The result of a search for a design."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.design._certificate import Certificate


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """A design: weighted actions, and a certificate that states what it achieves.

    All arrays are read-only.

    Attributes:
        support: The indices of the supported rows.
        weights: The weight of each supported row; the weights sum to one.
        rank: The dimension of the span of all actions.
        basis: Orthonormal columns that span all actions.
        certificate: What the design achieves.

    Example:
        >>> import dpbandits as dp
        >>> actions = dp.Actions.generate("sphere", count=100, dimension=3, rng=1)
        >>> design = dp.near_g_optimal(actions.matrix)
        >>> design.rank, len(design.support), design.certificate.holds
        (3, 3, True)
    """

    support: IntArray
    weights: FloatArray
    rank: int
    basis: FloatArray
    certificate: Certificate

    def __post_init__(self) -> None:
        for array in (self.support, self.weights, self.basis):
            array.setflags(write=False)
