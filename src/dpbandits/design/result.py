"""What a search returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbandits.design.certificate import Certificate


@dataclass(frozen=True, kw_only=True, eq=False)
class Design:
    """Weighted actions: row `support[i]` has weight `weights[i]`."""

    support: NDArray[np.int64]
    weights: NDArray[np.float64]
    rank: int
    """The dimension of the span of all actions."""
    basis: NDArray[np.float64]
    """Orthonormal columns spanning all actions."""
    certificate: Certificate

    def __post_init__(self) -> None:
        for array in (self.support, self.weights, self.basis):
            array.setflags(write=False)
