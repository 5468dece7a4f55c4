"""The clients: who they are is drawn when they are asked, and nobody is asked twice.

Clients are independent, θ_u = θ* + ξ_u with ξ_u ~ N(0, σ²I), so drawing a cohort without replacement
from a population of N is the same as drawing fresh clients until N have been drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dpbandits.checks import non_negative, one_of, whole
from dpbandits.errors import NotEnoughClients
from dpbandits.world.instance import Instance
from dpbandits.world.rewards import REWARD_LAWS

FloatArray = NDArray[np.float64]

_BLOCK = 1 << 16


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
        self._take(cohort)
        rows = self.instance.actions.matrix[list(support)]
        clients = rng.standard_normal((cohort, rows.shape[1]))
        clients *= self.heterogeneity
        clients += self.instance.theta
        return self._law(clients @ rows.T, np.array(plays, dtype=np.float64), rng)

    def rewards(self, cohort: int, action: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Ask `cohort` new clients for a single reward of one action each: columns, a block at a time.

        Of a client who answers for one action x, only ⟨ξ_u, x⟩ ~ N(0, σ²‖x‖²) matters.
        """
        self._take(cohort)
        row = self.instance.actions.matrix[action]
        mean, spread = float(row @ self.instance.theta), self.heterogeneity * float(np.linalg.norm(row))
        once = np.ones(1)
        for start in range(0, cohort, _BLOCK):
            own = rng.standard_normal((min(_BLOCK, cohort - start), 1))
            own *= spread
            own += mean
            yield self._law(own, once, rng)

    def _take(self, cohort: int) -> None:
        if self.size is not None and self.asked + cohort > self.size:
            raise NotEnoughClients(self.asked + cohort, self.size)
        self.asked += cohort
