"""Users whose rewards are a function of their name, so that a reference can compute them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.actions import Actions
from dpbandits.protocol import Plan


@dataclass(frozen=True)
class Population:
    """The users of one site (conforms to `dpbandits.federation.DataSource`)."""

    actions: Actions
    site: int
    count: int

    def users(self) -> list[str]:
        return [f"user-{self.site}-{number:06}" for number in range(self.count)]

    def averages(self, users: Sequence[str], plan: Plan) -> FloatArray:
        own = np.random.default_rng(self.site).normal(0, 0.05, (self.count, self.actions.dimension))
        theta = np.zeros(self.actions.dimension)
        theta[:2] = (0.8, 0.5)
        numbers = [int(user.rsplit("-", 1)[1]) for user in users]
        return np.asarray((theta + own[numbers]) @ self.actions.matrix[list(plan.support)].T)


def make(actions: str, site: int, count: int) -> Population:
    """The function that a site's file names as its data."""
    return Population(Actions.load(Path(actions)), site, count)
