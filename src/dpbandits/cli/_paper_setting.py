"""The options of `simulate` for the paper's (ε, δ), and for a comparison with the paper's constants."""

from __future__ import annotations

import argparse
from typing import Any

from dpbandits.cli._parser import add_flag
from dpbandits.privacy import PrivacyRequest
from dpbandits.simulation import PAPER_PRIVACY, Setting

# As printed in the paper: g ≤ 2d, growing cohorts, and the trust model's own noise.
_AS_PRINTED = {
    **PAPER_PRIVACY,
    "preset": "paper",
    "schedule": "exponential",
    "participants": None,
    "design_tolerance": 2.0,
    "noise": None,
    "without": (),
}


def add_paper_options(group: Any) -> None:
    """Add `--paper-setting` and `--compare-paper`."""
    epsilon, delta = PAPER_PRIVACY["epsilon"], PAPER_PRIVACY["delta"]
    add_flag(
        group,
        "--paper-setting",
        f"(ε, δ) = ({epsilon:g}, {delta:g}) as in the paper's experiments; --epsilon and --delta override "
        "these values; the defaults of the problem are the paper's in any case",
    )
    compared = f"add a row per trust model for the paper's constants as printed, at ({epsilon:g}, {delta:g})"
    add_flag(group, "--compare-paper", compared)


def fill_privacy(options: argparse.Namespace) -> None:
    """Set the ε and δ that were not given: the paper's with `--paper-setting`, else those of the library."""
    default = PrivacyRequest()
    usual = {"epsilon": default.epsilon, "delta": default.delta}
    for name, value in (PAPER_PRIVACY if options.paper_setting else usual).items():
        if getattr(options, name) is None:
            setattr(options, name, value)


def as_printed(setting: Setting) -> Setting:
    """The same problem and trust model with the paper's constants and (ε, δ)."""
    return setting.changed(**_AS_PRINTED)
