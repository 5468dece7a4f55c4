"""`RewardRange`: the range of single rewards in the user's units, mapped to [−bound, bound] and back."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._checks import two_ends


@dataclass(frozen=True, kw_only=True)
class RewardRange:
    """Rewards from `low` to `high`; a reward outside is clipped to the nearer end.

    Attributes:
        low: The reward that becomes −bound.
        high: The reward that becomes bound.
        bound: `Study.bound`: rewards inside the study lie in [−bound, bound].
    """

    low: float = -1.0
    high: float = 1.0
    bound: float = 1.0

    @staticmethod
    def of(given: object, *, bound: float = 1.0) -> RewardRange:
        """Return the range of a pair of numbers.

        Args:
            given: The pair, or None if rewards are given on the scale of the study.
            bound: `Study.bound`.

        Raises:
            InvalidValue: `given` is not a pair of finite numbers with the first below the second.
        """
        if given is None:
            return RewardRange(low=-bound, high=bound, bound=bound)
        low, high = two_ends(reward_range=given)
        return RewardRange(low=low, high=high, bound=bound)

    @property
    def half(self) -> float:
        """The factor from a difference of rewards inside the study to one in the user's units."""
        return (self.high / 2 - self.low / 2) / self.bound

    @property
    def middle(self) -> float:
        """The reward that becomes 0."""
        return self.low / 2 + self.high / 2

    def clipped(self, reward: float) -> float:
        """Return the nearest number in [low, high] to a reward in the user's units.

        Args:
            reward: The reward.
        """
        return max(self.low, min(self.high, reward))

    def scaled(self, reward: float) -> float:
        """Return a reward on the study's scale, clipped to [−bound, bound].

        Args:
            reward: The reward in the user's units.
        """
        return max(-self.bound, min(self.bound, (reward - self.middle) / self.half))

    def mean(self, scaled: float) -> float:
        """Return a mean reward in the user's units.

        Args:
            scaled: The mean reward on the study's scale.
        """
        return self.middle + self.half * scaled
