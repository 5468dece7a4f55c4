"""The steps by which `tight` goes beyond the paper's learner. Each has a name, a proof and a switch.

    differences   drop x when some b has ⟨θ̃, b − x⟩ > w(b − x), not b and x by widths of their own
    weighted      least squares weighted with the variances that the server knows
    recentred     clients report what is left after the last public estimate, clipped to what is likely
    whitened      clients report as many decorrelated numbers as the actions have rank, not one an action
    pooled        the best guess is that of all phases' estimates together, weighted by their precision
    committed     once nobody can be asked any more, the best guess is played to the end of the horizon

Proofs: docs/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dpbandits._checks import one_of


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Which steps are taken: all in `tight`, none in `paper`."""

    differences: bool = True
    weighted: bool = True
    recentred: bool = True
    whitened: bool = True
    pooled: bool = True
    committed: bool = True

    @staticmethod
    def of(preset: str) -> Steps:
        """What a preset takes."""
        if preset == "tight":
            return Steps()
        return Steps().without(*STEP_NAMES)

    def without(self, *names: str) -> Steps:
        """All but those named."""
        for name in names:
            one_of(STEP_NAMES, without=name)
        return replace(self, **dict.fromkeys(names, False))


STEP_NAMES = tuple(field.name for field in fields(Steps))
