"""The options that say which privacy is asked for; every command that takes them takes them alike."""

from __future__ import annotations

from typing import Any

from dpbandits.cli.parser import number
from dpbandits.privacy import NOISES, PRESETS

_ALL_NOISES = tuple(dict.fromkeys(noise for noises in NOISES.values() for noise in noises))


def add_privacy_options(group: Any, *, epsilon: float, delta: float, preset: str = "tight") -> None:
    """`--preset`, `--noise`, `--epsilon`, `--delta`, `--bound` and `--silent-share`."""
    group.add_argument(
        "--preset", choices=PRESETS, default=preset, help="exact calibration, or the paper's constants"
    )
    group.add_argument(
        "--noise", choices=_ALL_NOISES, help="the kind of noise (default: the trust model's own)"
    )
    group.add_argument("--epsilon", type=number, default=epsilon, metavar="E", help="privacy ε")
    group.add_argument("--delta", type=number, default=delta, metavar="D", help="privacy δ; 0 for pure")
    group.add_argument("--bound", type=number, default=1.0, metavar="B", help="clients clip to [−B, B]")
    group.add_argument(
        "--silent-share",
        type=number,
        default=0.0,
        metavar="Q",
        help="shared noise suffices even if this share of the reporting clients adds none",
    )
