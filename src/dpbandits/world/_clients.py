"""Whoever can be asked: every population, whether drawn, fitted to data or resampled from it.

A population says what `cohort` new clients expect of some actions. That nobody is asked twice, and how single
rewards scatter around what a client expects, is the same for all.
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

_BLOCK = 1 << 14  # arrays of so many numbers stay in the processor's cache


class Clients(ABC):
    """`size` clients of one instance; None for no limit."""

    def __init__(self, instance: Instance, *, size: int | None = None, rewards: str = "gaussian") -> None:
        self.instance = instance
        self.size = None if size is None else whole(1, population=size)
        self.asked = 0
        self._law = REWARD_LAWS[one_of(REWARD_LAWS, rewards=rewards)]

    @final
    def averages(
        self, cohort: int, support: Sequence[int], plays: Sequence[int], rng: np.random.Generator
    ) -> FloatArray:
        """Ask `cohort` new clients for their average reward of each supported action: a row each."""
        self._take(cohort)
        means = self._mean_rewards(cohort, list(support), rng)
        return self._law(means, np.array(plays, dtype=np.float64), rng)

    @final
    def rewards(self, cohort: int, action: int, rng: np.random.Generator) -> Iterator[FloatArray]:
        """Ask `cohort` new clients for a single reward of one action each: columns, a block at a time."""
        self._take(cohort)
        for start in range(0, cohort, _BLOCK):
            means = self._mean_rewards(min(_BLOCK, cohort - start), [action], rng)
            yield self._law(means, np.ones(1), rng)

    def _take(self, cohort: int) -> None:
        if self.size is not None and self.asked + cohort > self.size:
            raise NotEnoughClients(self.asked + cohort, self.size)
        self.asked += cohort

    @abstractmethod
    def _mean_rewards(self, cohort: int, support: list[int], rng: np.random.Generator) -> FloatArray:
        """What each of `cohort` new clients expects of each supported action: a row each."""
