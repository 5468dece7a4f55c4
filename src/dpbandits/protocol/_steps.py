"""`Steps`: the improvements that the preset `tight` adds to the paper's learner. Each can be switched off."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dpbandits._checks import one_of


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Which steps a study takes: all in the preset `tight`, none in `paper`. Proofs: docs/theory.md.

    Attributes:
        differences: Drop x if some b has ⟨θ̃, b − x⟩ > w(b − x), instead of comparing separate widths of b
            and x.
        weighted: Weight least squares with the variances that the server knows.
        recentred: Clients report residuals after the last public estimate, clipped to their likely range.
        whitened: Clients report r decorrelated numbers, where r is the rank of the actions, instead of one
            number per action.
        pooled: The best guess uses the estimates of all phases, weighted by their precision.
        committed: Once no more clients can be asked, play the best guess to the end of the horizon.
    """

    differences: bool = True
    weighted: bool = True
    recentred: bool = True
    whitened: bool = True
    pooled: bool = True
    committed: bool = True

    @staticmethod
    def of(preset: str) -> Steps:
        """Return the steps of a preset: all for "tight", none otherwise.

        Args:
            preset: The name of the preset.
        """
        if preset == "tight":
            return Steps()
        return Steps().without(*STEP_NAMES)

    def without(self, *names: str) -> Steps:
        """Return a copy with the named steps switched off.

        Example: `Steps.of("tight").without("pooled")`.

        Args:
            names: The names of attributes.

        Raises:
            InvalidValue: A name is not one of `STEP_NAMES`.
        """
        for name in names:
            one_of(STEP_NAMES, without=name)
        return replace(self, **dict.fromkeys(names, False))


STEP_NAMES = tuple(field.name for field in fields(Steps))
