"""`RewardRange`: the range of single rewards in the user's units, which is mapped to [−1, 1] and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real

from dpbandits.errors import InvalidValue


@dataclass(frozen=True, kw_only=True)
class RewardRange:
    """Rewards from `low` to `high`; a reward outside is clipped to the nearer end.

    Attributes:
        low: The reward that becomes −1.
        high: The reward that becomes 1.
    """

    low: float = -1.0
    high: float = 1.0

    @staticmethod
    def of(given: object) -> RewardRange:
        """Return the range of a pair of numbers.

        Raises:
            InvalidValue: It is not a pair of finite numbers, the first below the second.
        """
        expected = "a pair of finite numbers (low, high) with low < high"
        ends = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
        if len(ends) != 2 or not all(isinstance(end, Real) and not isinstance(end, bool) for end in ends):
            raise InvalidValue("reward_range", repr(given), expected)
        low, high = float(ends[0]), float(ends[1])
        if not low < high or not math.isfinite(high - low) or not math.isfinite(low):
            raise InvalidValue("reward_range", repr(given), expected)
        return RewardRange(low=low, high=high)

    @property
    def half(self) -> float:
        """Half the width of the range: a difference of 1 inside the study is `half` in the user's units."""
        return self.high / 2 - self.low / 2

    @property
    def middle(self) -> float:
        """The reward that becomes 0."""
        return self.low / 2 + self.high / 2

    def scaled(self, reward: float) -> float:
        """Return a reward in [−1, 1]."""
        return max(-1.0, min(1.0, (reward - self.middle) / self.half))

    def mean(self, scaled: float) -> float:
        """Return a mean reward in the user's units."""
        return self.middle + self.half * scaled
