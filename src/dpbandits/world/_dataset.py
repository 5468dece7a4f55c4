"""Real data as a bandit problem: a catalogue of actions, a global θ*, and users who differ from it.

Results on such data are semi-real: actions, θ* and the users' differences come from the data, while who is
asked and how single rewards scatter is drawn by the computer. Users are

    fitted      θ_u ~ N(θ*, Σ), with Σ fitted to the data
    resampled   the data's own users, each with the θ_u fitted to it, drawn with replacement
    measured    the same users with what was measured of them, which need not be linear in the actions

Widths are proved for the first two. With the third they hold but for the misfit of the linear model.
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
    """What a loader extracts. Rows of `catalogue` are the possible actions, in the unit ball.

    `parameters` has a row θ_u for each user, whose mean is `theta`; `covariance` is Σ. `measured`, if the
    data has it, is what each user got of each action. `noise` is the deviation of single rewards in the data.
    With `whole_catalogue` every action is played; otherwise each instance draws some.
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
        """By how much a measured mean reward differs from ⟨θ*, x⟩ at most; zero if none was measured."""
        if self.measured is None:
            return 0.0
        return float(np.max(np.abs(self.measured.mean(axis=0) - self.catalogue @ self.theta)))

    def check(self, users: str) -> str:
        """The kind of users, if this data set has them."""
        if one_of(USERS, users=users) == "measured" and self.measured is None:
            raise InvalidValue(
                "users", users, f"fitted or resampled: {self.name} has no user with all actions"
            )
        return users

    def choose(self, count: int, rng: np.random.Generator) -> IntArray:
        """Rows of the catalogue that an instance plays."""
        if self.whole_catalogue:
            return np.arange(len(self.catalogue))
        if whole(1, actions=count) > len(self.catalogue):
            raise InvalidValue("actions", count, f"at most {len(self.catalogue):,}, as {self.name} has")
        return np.sort(rng.choice(len(self.catalogue), size=count, replace=False))

    def instance(self, chosen: IntArray, users: str) -> Instance:
        """The truth about these rows: measured rewards where users are the measured ones."""
        measured = None
        if self.check(users) == "measured" and self.measured is not None:
            measured = self.measured[:, chosen].mean(axis=0)
        return Instance(Actions(self.catalogue[chosen]), self.theta, measured=measured)

    def people(self, instance: Instance, users: str, *, size: int | None, rewards: str) -> Clients:
        """The population of such an instance."""
        if self.check(users) == "fitted":
            return FittedPopulation(instance, covariance=self.covariance, size=size, rewards=rewards)
        tastes = self.parameters @ instance.actions.matrix.T
        if users == "measured" and self.measured is not None:
            tastes = self.measured
        return ResampledPopulation(instance, tastes=tastes, size=size, rewards=rewards)

    def heterogeneity(self, users: str) -> float:
        """A σ for which every ⟨ξ_u, v⟩ is sub-Gaussian with proxy σ²‖v‖².

        Normal ones: the root of Σ's largest eigenvalue. Real ones lie, along a unit v, in an interval no
        longer than the largest distance of two users, so half of that will do (Hoeffding).
        """
        if self.check(users) == "fitted":
            return float(np.sqrt(np.linalg.eigvalsh(self.covariance)[-1]))
        return float(pdist(self.parameters).max() / 2)
