"""One problem instance: the actions and θ*, and so the mean reward and the gap of every action."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue

_NORM_SLACK = 1e-9  # θ* may have been normalised in floating point


class Instance:
    """An action set and θ*, which the learner never sees.

    Args:
        actions: The action set.
        theta: θ*, a vector of norm at most 1.
        measured: The mean reward of each action, if it is not ⟨θ*, x⟩; real rewards need not be linear in the
            actions.

    Raises:
        InvalidValue: If θ* has another dimension or is too long, or if the number of measured rewards is
            wrong.

    Example:
        >>> import dpbandits as dp
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.3, 0.8])
        >>> instance.best_action, instance.gaps
        (1, array([0.5, 0. ]))
        >>> instance.regret([0, 1], [10, 90])
        5.0
    """

    def __init__(self, actions: Actions, theta: ArrayLike, *, measured: ArrayLike | None = None) -> None:
        vector = _row("theta", theta, actions.dimension, "the dimension of the actions")
        if np.linalg.norm(vector) > 1 + _NORM_SLACK:
            raise InvalidValue("theta", f"norm {np.linalg.norm(vector):.6g}", "a vector of norm <= 1")
        self.actions = actions
        self.theta: FloatArray = vector
        self.mean_rewards: FloatArray = actions.matrix @ vector
        self._linear = measured is None
        if measured is not None:
            self.mean_rewards = _row("measured", measured, actions.count, "one per action")

    @classmethod
    def draw(cls, actions: Actions, rng: np.random.Generator) -> Instance:
        """Draw θ* uniformly from the unit sphere.

        Args:
            actions: The action set.
            rng: Draws θ*.

        Returns:
            The instance.
        """
        direction = rng.standard_normal(actions.dimension)
        return cls(actions, direction / np.linalg.norm(direction))

    def bent(self, misfit: float, rng: np.random.Generator) -> Instance:
        """Return an instance whose mean rewards are not linear: ⟨θ*, x⟩ + misfit·h(x).

        Args:
            misfit: The largest deviation from ⟨θ*, x⟩.
            rng: Draws h(x), independent and uniform in [−1, 1].
        """
        off = misfit * rng.uniform(-1, 1, size=self.actions.count)
        return Instance(self.actions, self.theta, measured=self.mean_rewards + off)

    @cached_property
    def misfit(self) -> FloatArray | None:
        """By how much the mean reward of each action differs from ⟨θ*, x⟩; None if it is linear."""
        if self._linear:
            return None
        return np.asarray(self.mean_rewards - self.actions.matrix @ self.theta, dtype=np.float64)

    @cached_property
    def gaps(self) -> FloatArray:
        """The regret of one play of each action against the best one."""
        lost: FloatArray = self.mean_rewards.max() - self.mean_rewards
        return lost

    @cached_property
    def best_action(self) -> int:
        """The index of x*."""
        return int(np.argmin(self.gaps))

    def cover_loss(self, rounds: int) -> float:
        """Return the regret that may come from approximating a continuous action set.

        Args:
            rounds: The number of rounds.
        """
        return self.actions.loss * float(np.linalg.norm(self.theta)) * rounds

    def regret(self, support: Sequence[int], plays: Sequence[int]) -> float:
        """Return the regret of playing `support[i]` for `plays[i]` rounds.

        Args:
            support: The indices of the actions.
            plays: The number of rounds of each action.
        """
        return float(np.dot(self.gaps[list(support)], np.array(plays, dtype=np.float64)))


def _row(field: str, given: ArrayLike, size: int, meaning: str) -> FloatArray:
    """Return `size` finite numbers, or raise an error that names the field."""
    matrix = finite_matrix(**{field: np.atleast_2d(np.asarray(given))})
    if matrix.shape != (1, size):
        raise InvalidValue(field, f"{matrix.size} numbers", f"{size}, {meaning}")
    return matrix.ravel()
