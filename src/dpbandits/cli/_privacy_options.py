"""The options that request privacy. Every command that has them has the same ones."""

from __future__ import annotations

import argparse
from typing import Any

from dpbandits._checks import whole
from dpbandits.cli._parser import number, whole_number
from dpbandits.privacy import NOISES, PRESETS, SHAPES, Mechanism, PrivacyRequest, calibrate

PRIVATE = tuple(trust for trust, noises in NOISES.items() if noises)
_ALL_NOISES = tuple(dict.fromkeys(noise for noises in NOISES.values() for noise in noises))


def add_privacy_options(
    group: Any,
    *,
    epsilon: float | None,
    delta: float | None,
    preset: str = "tight",
    epsilon_note: str = "",
    delta_note: str = "",
) -> None:
    """Add `--preset`, `--noise`, `--epsilon`, `--delta`, `--bound` and `--silent-share`.

    Args:
        group: The argument group.
        epsilon: The default of `--epsilon`. None leaves it to the command.
        delta: The default of `--delta`. None leaves it to the command.
        preset: The default of `--preset`.
        epsilon_note: Text after the help of `--epsilon`, about a default that the command chooses.
        delta_note: The same for `--delta`.
    """
    group.add_argument(
        "--preset",
        choices=PRESETS,
        default=preset,
        help="exact calibration, or the paper's constants as printed",
    )
    group.add_argument("--noise", choices=_ALL_NOISES, help="noise distribution (default: the trust model's)")
    group.add_argument(
        "--epsilon", type=number, default=epsilon, metavar="E", help=f"privacy ε{epsilon_note}"
    )
    group.add_argument(
        "--delta",
        type=number,
        default=delta,
        metavar="D",
        help=f"privacy δ; 0 for pure differential privacy{delta_note}",
    )
    group.add_argument(
        "--bound", type=number, default=1.0, metavar="B", help="clients clip their averages to [−B, B]"
    )
    group.add_argument(
        "--silent-share",
        type=number,
        default=0.0,
        metavar="Q",
        help="keep the guarantee even if this share of the reporting clients adds no noise",
    )


def add_mechanism_options(group: Any, *, support: int, cohort: int) -> None:
    """Add `--support`, `--cohort`, `--clip` and `--minimum-reports`, for commands about one mechanism."""
    group.add_argument(
        "--support", type=whole_number, default=support, metavar="S", help="averages per client"
    )
    group.add_argument("--cohort", type=whole_number, default=cohort, metavar="N", help="clients per cohort")
    group.add_argument(
        "--clip",
        choices=SHAPES,
        default="box",
        help="clip each average, or the ℓ2 norm of all averages of a client",
    )
    group.add_argument(
        "--minimum-reports",
        type=whole_number,
        metavar="M",
        help="fewest reports in a release; they alone must carry enough noise (default: the cohort)",
    )


def privacy_request(trust: str, options: argparse.Namespace) -> PrivacyRequest:
    """The request that the options make of one trust model."""
    return PrivacyRequest(
        trust=trust,
        epsilon=options.epsilon,
        delta=options.delta,
        preset=options.preset,
        noise=options.noise,
        silent_share=options.silent_share,
    )


def calibrated(request: PrivacyRequest, options: argparse.Namespace) -> Mechanism:
    """The mechanism that the options describe."""
    whole(1, cohort=options.cohort)
    if options.minimum_reports is not None:
        whole(1, options.cohort, minimum_reports=options.minimum_reports)
    return calibrate(
        request,
        support=options.support,
        cohort=options.cohort,
        bound=options.bound,
        shape=options.clip,
        minimum_reports=options.minimum_reports,
    )
