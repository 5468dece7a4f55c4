"""Populations of clients. Clients are drawn when they are asked, and no client is asked twice.

Clients are independent. So drawing cohorts without replacement from a population of N is the same as drawing
new clients until N have been drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix, non_negative
from dpbandits.errors import InvalidValue
from dpbandits.world._clients import Clients
from dpbandits.world._instance import Instance

# For more numbers than this in a cohort's θ_u, only the needed projections are drawn.
_LARGE = 1 << 22
_VERY_LARGE = 1 << 24  # the same limit for fitted populations


class Population(Clients):
    """Synthetic clients: θ_u = θ* + ξ_u with ξ_u ~ N(0, σ²I).

    The mean reward of client u is ⟨θ_u, x⟩, plus `Instance.misfit` if the instance is not linear.

    Args:
        instance: The instance.
        heterogeneity: The standard deviation σ between clients.
        size: The number of clients, or None for no limit.
        rewards: The distribution of single rewards.

    Raises:
        InvalidValue: If an argument is out of range.

    Example:
        >>> import dpbandits as dp
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.3, 0.8])
        >>> population = dp.Population(instance, heterogeneity=0.1, rewards="bernoulli")
        >>> population.instance.best_action
        1
    """

    def __init__(
        self, instance: Instance, *, heterogeneity: float, size: int | None = None, rewards: str = "gaussian"
    ) -> None:
        super().__init__(instance, size=size, rewards=rewards)
        self.heterogeneity = non_negative(heterogeneity=heterogeneity)

    def _mean_rewards(self, cohort: int, support: list[int], rng: np.random.Generator) -> FloatArray:
        off = self.instance.misfit
        drawn = self._linear_rewards(cohort, support, rng)
        return drawn if off is None else drawn + off[support]

    def _linear_rewards(self, cohort: int, support: list[int], rng: np.random.Generator) -> FloatArray:
        """Draw all of θ_u, or, for many clients and few actions, only the needed projections.

        With rows = L Q, where Q has orthonormal rows, Qξ_u is N(0, σ²I) again. So ⟨ξ_u, x⟩ = (L Qξ_u)_x needs
        only as many draws as there are actions.
        """
        rows = self.instance.actions.matrix[support]
        if self.heterogeneity == 0:
            return np.broadcast_to(rows @ self.instance.theta, (cohort, len(rows))).copy()
        if len(rows) < rows.shape[1] and (len(rows) == 1 or cohort * rows.shape[1] > _LARGE):
            factor = np.linalg.qr(rows.T).R.T * self.heterogeneity
            means = rng.standard_normal((cohort, len(rows))) @ factor.T
            means += rows @ self.instance.theta
            return np.asarray(means, dtype=np.float64)
        clients = rng.standard_normal((cohort, rows.shape[1]))
        clients *= self.heterogeneity
        clients += self.instance.theta
        return np.asarray(clients @ rows.T, dtype=np.float64)


class FittedPopulation(Clients):
    """Semi-real clients: θ_u = θ* + ξ_u with ξ_u ~ N(0, Σ), where Σ is fitted to data.

    Args:
        instance: The instance.
        covariance: The covariance Σ.
        size: The number of clients, or None for no limit.
        rewards: The distribution of single rewards.

    Raises:
        InvalidValue: If the covariance has another shape or a negative eigenvalue.
    """

    def __init__(
        self, instance: Instance, *, covariance: ArrayLike, size: int | None = None, rewards: str = "gaussian"
    ) -> None:
        super().__init__(instance, size=size, rewards=rewards)
        matrix = finite_matrix(covariance=np.asarray(covariance))
        dimension = instance.actions.dimension
        if matrix.shape != (dimension, dimension):
            raise InvalidValue("covariance", f"shape {matrix.shape}", f"({dimension}, {dimension})")
        values, vectors = np.linalg.eigh(matrix)
        if values[0] < -1e-9 * max(values[-1], 1e-300):
            raise InvalidValue("covariance", f"eigenvalue {values[0]:.3g}", "no eigenvalue below zero")
        # If Σ is singular, rounding may leave an eigenvalue slightly below zero.
        self._root = vectors * np.sqrt(np.maximum(values, 0))

    def _mean_rewards(self, cohort: int, support: list[int], rng: np.random.Generator) -> FloatArray:
        rows = self.instance.actions.matrix[support]
        factor = rows @ self._root
        if len(rows) < rows.shape[1] and cohort * rows.shape[1] > _VERY_LARGE:
            factor = np.linalg.qr(factor.T).R.T  # as in `Population`
        scattered = rng.standard_normal((cohort, factor.shape[1])) @ factor.T
        return np.asarray(scattered + rows @ self.instance.theta, dtype=np.float64)


class ResampledPopulation(Clients):
    """Semi-real clients: each is a user of the data, drawn with replacement.

    Args:
        instance: The instance.
        tastes: The mean reward per user (row) and action (column).
        size: The number of clients, or None for no limit.
        rewards: The distribution of single rewards.

    Raises:
        InvalidValue: If the number of columns is not the number of actions.
    """

    def __init__(
        self, instance: Instance, *, tastes: ArrayLike, size: int | None = None, rewards: str = "gaussian"
    ) -> None:
        super().__init__(instance, size=size, rewards=rewards)
        self.tastes = finite_matrix(tastes=np.asarray(tastes))
        if self.tastes.shape[1] != instance.actions.count:
            expected = f"{instance.actions.count}, one per action"
            raise InvalidValue("tastes", f"{self.tastes.shape[1]} columns", expected)

    def _mean_rewards(self, cohort: int, support: list[int], rng: np.random.Generator) -> FloatArray:
        users = rng.integers(len(self.tastes), size=cohort)
        return np.asarray(self.tastes[users[:, None], np.array(support)], dtype=np.float64)
