"""`Safeguard`: limits on the losses of a study compared with the option that is in use today.

A safeguard has two parts, and one of them may be left out:

    margin      an option that is shown to be worse than the current one by more than this is not played again
    allowance   in every phase, the mean reward is at most this much below that of the current option

`_safe_plays.py` applies them. Proofs: docs/theory.md, section *A safeguard*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbandits._checks import convert_to_floats, non_negative, positive, whole
from dpbandits.errors import InvalidValue

if TYPE_CHECKING:
    from dpbandits.protocol._study import Study


@dataclass(frozen=True, kw_only=True)
class Safeguard:
    """Limits on how much worse a study may be than the option in use today.

    Both limits are on the study's scale of rewards, and hold with the study's `confidence`. At least one
    limit must be given.

    Attributes:
        current: The index of the option in use today.
        margin: An option that is certainly worse than the current one by more than this is not played again:
            neither in a learning phase, nor in a fit test or a confirmation. None for no such rule.
        allowance: The largest mean loss of a phase: how far its mean reward may be below that of the current
            option, on average over the rounds of the phase. Phases that could lose more also play the current
            option, so they take more rounds. None for no limit.

    Example:
        >>> from dataclasses import replace
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> safeguard = dp.Safeguard(current=2, margin=0.02, allowance=0.5)
        >>> study = replace(examples.study(), horizon=1000, confidence=0.95, safeguard=safeguard)
        >>> plan = dp.ask(study.begin())
        >>> plan.support, plan.plays
        ((0, 1, 2), (5, 5, 30))
    """

    current: int
    margin: float | None = None
    allowance: float | None = None

    def __post_init__(self) -> None:
        whole(0, current=self.current)
        if self.margin is None and self.allowance is None:
            raise InvalidValue("safeguard", "no limit", "a margin, an allowance, or both")
        if self.margin is not None:
            non_negative(margin=self.margin)
        if self.allowance is not None:
            positive(allowance=self.allowance)
        convert_to_floats(self)

    def check(self, study: Study) -> None:
        """Raise an error if a study cannot have this safeguard.

        Args:
            study: The study.

        Raises:
            InvalidValue: The study has no `confidence`, or no action with the index `current`.
        """
        if study.confidence is None:
            raise InvalidValue("confidence", None, "a number such as 0.95, if the study has a safeguard")
        whole(0, study.actions.count - 1, current=self.current)
