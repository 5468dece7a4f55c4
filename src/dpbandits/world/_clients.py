"""The base class of all populations: drawn, fitted to data, or resampled from data.

A population returns the mean rewards of `cohort` new clients for some actions. The base class ensures that no
client is asked twice, and adds the noise of single rewards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import final

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, whole
from dpbandits.errors import NotEnoughClients
from dpbandits.world._instance import Instance
from dpbandits.world._rewards import REWARD_LAWS

_BLOCK = 1 << 14  # arrays with this many numbers stay in the processor's cache


class Clients(ABC):
    """The clients of one instance.

    Args:
        instance: The instance.
        size: The number of clients, or None for no limit.
        rewards: The distribution of single rewards: `gaussian`, `uniform` or `bernoulli`.

    Attributes:
        asked: The number of clients that were asked so far.
        normal: Whether single rewards are mean + N(0, 1).

    Raises:
        InvalidValue: If the size or the distribution is not accepted.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> from dpbandits.world import Clients
        >>> class Equal(Clients):
        ...     def _mean_rewards(self, cohort, support, rng):
        ...         return np.tile(self.instance.mean_rewards[support], (cohort, 1))
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.5, 0.2])
        >>> Equal(instance).averages(3, [0, 1], [100, 100], np.random.default_rng(1)).shape
        (3, 2)
    """

    def __init__(self, instance: Instance, *, size: int | None = None, rewards: str = "gaussian") -> None:
        self.instance = instance
        self.size = None if size is None else whole(1, population=size)
        self.asked = 0
        self.normal = rewards == "gaussian"
        self._law = REWARD_LAWS[one_of(REWARD_LAWS, rewards=rewards)]

    @final
    def averages(
        self, cohort: int, support: Sequence[int], plays: Sequence[int], rng: np.random.Generator
    ) -> FloatArray:
        """Ask new clients for their average reward of each supported action.

        Args:
            cohort: The number of clients.
            support: The indices of the actions.
            plays: How often each action is played.
            rng: Draws clients and rewards.

        Returns:
            One row per client and one column per action.

        Raises:
            NotEnoughClients: If fewer clients are left.
        """
        self._take(cohort)
        means = self._mean_rewards(cohort, list(support), rng)
        return self._law(means, np.array(plays, dtype=np.float64), rng)

    @final
    def rewards(self, cohort: int, action: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Ask new clients for a single reward of one action each.

        Args:
            cohort: The number of clients.
            action: The index of the action.
            rng: Draws clients and rewards.

        Yields:
            Columns of rewards, in blocks.

        Raises:
            NotEnoughClients: If fewer clients are left.
        """
        self._take(cohort)
        for start in range(0, cohort, _BLOCK):
            means = self._mean_rewards(min(_BLOCK, cohort - start), [action], rng)
            yield self._law(means, np.ones(1), rng)

    def _take(self, cohort: int) -> None:
        """Count the clients that are asked, or raise an error if there are not enough left."""
        if self.size is not None and self.asked + cohort > self.size:
            raise NotEnoughClients(self.asked + cohort, self.size)
        self.asked += cohort

    @abstractmethod
    def _mean_rewards(self, cohort: int, support: list[int], rng: np.random.Generator) -> FloatArray:
        """Return the mean rewards of `cohort` new clients: one row per client, one column per action."""
