"""The paper's problem in both presets, and the names, noises and line styles of its trust models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpbandits._plots import TRUST_COLOURS
from dpbandits.experiments._experiment import Work
from dpbandits.simulation import Setting, Simulated

# `paper` also uses the paper's designs, with g ≤ 2 × rank. `tight` uses the library's default, 1.3 × rank.
PRESETS = {
    "tight": Setting.paper(schedule="exponential"),
    "paper": Setting.paper(preset="paper", schedule="exponential", design_tolerance=2.0),
}

NAMES = {"none": "DPE", "central": "CDP-DPE", "shuffle": "SDP-DPE", "local": "LDP-DPE"}
PRIVATE = ("central", "shuffle", "local")
# The noise of the paper's mechanism in each trust model. Models that are missing take the preset's default.
_NOISES = {"shuffle": "binomial"}
_TIGHT_NOISES = {**_NOISES, "central": "discrete-gaussian", "local": "discrete-gaussian"}

COLOURS = TRUST_COLOURS
_DASHES = {"shuffle": "--"}
CLOSE = 1.4  # the ratio of two regrets up to which they count as close
SERIES = ("#56B4E9", "#009E73", "#E69F00", "#D55E00", "#CC79A7", "#0072B2", "#000000")

_TINY = 1e-12

# The reason for most differences in `paper`.
NO_ELIMINATION = (
    "With the constants of the paper, almost no action is dropped once there is noise: the width allows for "
    "2σ√(Sd), about 90 times the noise that reaches an estimate, and Algorithm 2 adds hundreds of times "
    "the noise that its (ε, δ) needs. An action that is not dropped is played to the end."
)


def in_trust(base: Setting, trust: str, **changes: Any) -> Setting:
    """Return the setting of a trust model with the paper's mechanism: Gaussian noise, or bits if shuffled.

    By default, `tight` would use the noise with the least predicted error in each phase instead. That may be
    another mechanism than the paper's.
    """
    noises = _TIGHT_NOISES if base.privacy.preset == "tight" else _NOISES
    return base.changed(trust=trust, noise=noises.get(trust), **changes)


def without_privacy(preset: str, runs: int) -> Work:
    """Return DPE in the paper's setting."""
    return Work(label=f"{preset} DPE", job=Simulated(setting=PRESETS[preset]), runs=runs)


def dashes(trust: str) -> str:
    """Return the line style of a trust model.

    Curves of the central and the shuffle model often coincide; a dashed line keeps the other one visible.

    Args:
        trust: The trust model.
    """
    return _DASHES.get(trust, "-")


def true_delta(runs: Sequence[Any]) -> float | None:
    """Return the largest true δ of the runs, or None without privacy."""
    return max((run.guarantee.delta for run in runs if run.guarantee is not None), default=None)


def shown_delta(*deltas: float) -> str:
    """Format one δ, or the range of several, for legends. Values below 10⁻¹² are shown as `< 1e-12`."""
    shown = [f"{delta:.2g}" if delta >= _TINY else f"< {_TINY:g}" for delta in (min(deltas), max(deltas))]
    return " … ".join(dict.fromkeys(shown))


def survived(runs: Sequence[Any]) -> int:
    """Return the number of runs in which the best action was never dropped."""
    return sum(run.best_action_survived for run in runs)
