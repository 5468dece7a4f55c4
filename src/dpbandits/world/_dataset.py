"""Real data as a bandit problem: a catalogue of actions, a global θ*, and users who differ from it.

Results on such data are semi-real. Actions, θ* and the differences between users come from the data. Which
users are asked, and the noise of single rewards, are simulated. Users are

    fitted      θ_u ~ N(θ*, Σ), with Σ fitted to the data
    resampled   the users of the data, each with the θ_u fitted to it, drawn with replacement
    measured    the same users with their measured rewards, which need not be linear in the actions

Confidence widths are proved for the first two. For the third they hold up to the misfit of the linear model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial.distance import pdist

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import one_of, whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.world._clients import Clients
from dpbandits.world._instance import Instance
from dpbandits.world._population import FittedPopulation, ResampledPopulation

USERS = ("fitted", "resampled", "measured")
SEMI_REAL = "semi-real"


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """A bandit problem extracted from data.

    Attributes:
        name: The name for tables and errors.
        catalogue: The possible actions, one per row, in the unit ball.
        labels: A description of each action.
        theta: The global θ*, the mean of all θ_u.
        parameters: One row θ_u per user.
        covariance: The covariance Σ of the users.
        noise: The standard deviation of single rewards in the data.
        whole_catalogue: Whether every action is played; otherwise each instance draws some.
        measured: The measured mean reward per user and action, if the data has it.
    """

    name: str
    catalogue: FloatArray
    labels: tuple[str, ...]
    theta: FloatArray
    parameters: FloatArray
    covariance: FloatArray
    noise: float
    whole_catalogue: bool
    measured: FloatArray | None = None

    @cached_property
    def misfit(self) -> float:
        """The largest difference between a measured mean reward and ⟨θ*, x⟩; 0 if none was measured."""
        if self.measured is None:
            return 0.0
        return float(np.max(np.abs(self.measured.mean(axis=0) - self.catalogue @ self.theta)))

    def check(self, users: str) -> str:
        """Return the kind of users, or raise an error if this data set does not have them.

        Args:
            users: `fitted`, `resampled` or `measured`.

        Raises:
            InvalidValue: If the kind is unknown, or if it is `measured` and the data has no measured rewards.
        """
        if one_of(USERS, users=users) == "measured" and self.measured is None:
            expected = f"fitted or resampled; {self.name} has no measured rewards of all actions"
            raise InvalidValue("users", users, expected)
        return users

    def choose(self, count: int, rng: np.random.Generator) -> IntArray:
        """Choose the rows of the catalogue that an instance plays.

        Args:
            count: The number of actions; ignored if the whole catalogue is played.
            rng: Draws the rows.

        Returns:
            The indices of the rows, in order.

        Raises:
            InvalidValue: If the catalogue has fewer actions.
        """
        if self.whole_catalogue:
            return np.arange(len(self.catalogue))
        if whole(1, actions=count) > len(self.catalogue):
            expected = f"at most {len(self.catalogue):,}, the actions of {self.name}"
            raise InvalidValue("actions", count, expected)
        return np.sort(rng.choice(len(self.catalogue), size=count, replace=False))

    def instance(self, chosen: IntArray, users: str) -> Instance:
        """Return the instance with these rows; for `measured` users its mean rewards are the measured ones.

        Args:
            chosen: The indices of the rows.
            users: `fitted`, `resampled` or `measured`.
        """
        measured = None
        if self.check(users) == "measured" and self.measured is not None:
            measured = self.measured[:, chosen].mean(axis=0)
        return Instance(Actions(self.catalogue[chosen]), self.theta, measured=measured)

    def people(self, instance: Instance, users: str, *, size: int | None, rewards: str) -> Clients:
        """Return the population of an instance.

        Args:
            instance: The instance.
            users: `fitted`, `resampled` or `measured`.
            size: The number of clients, or None for no limit.
            rewards: The distribution of single rewards.
        """
        if self.check(users) == "fitted":
            return FittedPopulation(instance, covariance=self.covariance, size=size, rewards=rewards)
        tastes = self.parameters @ instance.actions.matrix.T
        if users == "measured" and self.measured is not None:
            tastes = self.measured
        return ResampledPopulation(instance, tastes=tastes, size=size, rewards=rewards)

    def heterogeneity(self, users: str) -> float:
        """Return a σ for which every ⟨ξ_u, v⟩ is sub-Gaussian with proxy σ²‖v‖².

        For normal users it is the square root of the largest eigenvalue of Σ. Along a unit vector v, the
        users of the data lie in an interval no longer than the largest distance between two users, so half of
        that distance suffices (Hoeffding).

        Args:
            users: `fitted`, `resampled` or `measured`.
        """
        if self.check(users) == "fitted":
            return float(np.sqrt(np.linalg.eigvalsh(self.covariance)[-1]))
        return float(pdist(self.parameters).max() / 2)
