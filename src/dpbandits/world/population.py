"""The clients: who they are is drawn when they are asked, and nobody is asked twice.

Clients are independent, θ_u = θ* + ξ_u with ξ_u ~ N(0, σ²I), so drawing a cohort without replacement
from a population of N is the same as drawing fresh clients until N have been drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpbandits.checks import non_negative, one_of, whole
from dpbandits.errors import NotEnoughClients
from dpbandits.world.instance import Instance
from dpbandits.world.rewards import REWARD_LAWS

FloatArray = NDArray[np.float64]

_LARGE = 1 << 22  # numbers in a cohort's θ_u; smaller ones are all drawn, as they have always been


class Population:
    """`size` clients around the θ* of an instance; None for no limit."""

    def __init__(
        self,
        instance: Instance,
        *,
        heterogeneity: float,
        size: int | None = None,
        rewards: str = "gaussian",
    ) -> None:
        self.instance = instance
        self.heterogeneity = non_negative(heterogeneity=heterogeneity)
        self.size = None if size is None else whole(1, population=size)
        self.asked = 0
        self._law = REWARD_LAWS[one_of(REWARD_LAWS, rewards=rewards)]

    def averages(
        self, cohort: int, support: Sequence[int], plays: Sequence[int], rng: np.random.Generator
    ) -> FloatArray:
        """Ask `cohort` new clients for their average reward of each supported action: a row each."""
        if self.size is not None and self.asked + cohort > self.size:
            raise NotEnoughClients(self.asked + cohort, self.size)
        self.asked += cohort
        rows = self.instance.actions.matrix[list(support)]
        means = self._means(cohort, rows, rng)
        return self._law(means, np.array(plays, dtype=np.float64), rng)

    def _means(self, cohort: int, rows: FloatArray, rng: np.random.Generator) -> FloatArray:
        """⟨θ_u, x⟩ of new clients u and supported actions x.

        Of many clients and few actions not all of θ_u is drawn: with rows = L Q, Q of orthonormal rows, Qξ_u
        is N(0, σ²I) again, so that ⟨ξ_u, x⟩ = (L Qξ_u)_x needs as many draws as there are actions.
        """
        if len(rows) < rows.shape[1] and cohort * rows.shape[1] > _LARGE:
            factor = np.linalg.qr(rows.T).R.T * self.heterogeneity
            means = rng.standard_normal((cohort, len(rows))) @ factor.T
            means += rows @ self.instance.theta
            return means
        clients = rng.standard_normal((cohort, rows.shape[1]))
        clients *= self.heterogeneity
        clients += self.instance.theta
        found: FloatArray = clients @ rows.T
        return found
