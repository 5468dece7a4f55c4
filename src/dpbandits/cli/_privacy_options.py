"""The options that request privacy, which several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from dpbandits._checks import whole
from dpbandits.cli._parser import add_choice, add_value, number, whole_number
from dpbandits.errors import InvalidValue
from dpbandits.privacy import PRESETS, SHAPES, TRUST_MODELS, Mechanism, PrivacyRequest, TrustModel, calibrate


class Names:
    """Choices of an option that plugins can extend. The help lists known names; others are looked up."""

    def __init__(self, known: Callable[[], Iterable[str]], has: Callable[[str], bool]) -> None:
        self._known, self._has = known, has

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __contains__(self, name: str) -> bool:
        try:
            return self._has(name)
        except InvalidValue as error:  # a plugin is broken
            raise argparse.ArgumentError(None, str(error)) from None


def _private() -> list[TrustModel]:
    return [model for model in TRUST_MODELS.values() if model.private]


def _is_private(trust: str) -> bool:
    return trust in TRUST_MODELS and TRUST_MODELS[trust].private


TRUSTS = Names(lambda: TRUST_MODELS, lambda trust: trust in TRUST_MODELS)
"""Every trust model."""
PRIVATE = Names(lambda: [model.name for model in _private()], _is_private)
"""Every private trust model."""
NOISES = Names(
    lambda: dict.fromkeys(noise for model in _private() for noise in model.all_noises()),
    lambda noise: any(model.offers(noise) for model in _private()),
)
"""Every noise of every trust model."""


def offering(noise: str | None) -> list[str]:
    """Return the names of the private trust models that offer a noise; all names if it is None."""
    return [model.name for model in _private() if noise is None or model.offers(noise)]


def add_privacy_options(
    group: Any, *, epsilon: float | None, delta: float | None, epsilon_note: str = "", delta_note: str = ""
) -> None:
    """Add `--preset`, `--noise`, `--epsilon`, `--delta`, `--bound` and `--silent-share`.

    Args:
        group: The argument group.
        epsilon: The default of `--epsilon`. None leaves it to the command.
        delta: The default of `--delta`. None leaves it to the command.
        epsilon_note: Text after the help of `--epsilon`, for a default that the command chooses.
        delta_note: The same for `--delta`.
    """
    presets = "tight: exact calibration; paper: the paper's constants as printed"
    add_choice(group, "--preset", PRESETS, presets, "tight")
    add_choice(
        group,
        "--noise",
        NOISES,
        "noise distribution (default: the one with the least predicted error)",
    )
    add_value(group, "--epsilon", number, "E", f"privacy ε{epsilon_note}", epsilon)
    add_value(group, "--delta", number, "D", f"privacy δ; 0 for pure differential privacy{delta_note}", delta)
    add_value(group, "--bound", number, "B", "clients clip their averages to [−B, B]", 1.0)
    silent = "keep the guarantee even if this share of the reporting clients adds no noise"
    add_value(group, "--silent-share", number, "Q", silent, 0.0)


def add_mechanism_options(group: Any, *, coordinates: int, cohort: int) -> None:
    """Add `--coordinates`, `--cohort`, `--clip` and `--minimum-reports`, for commands about one mechanism."""
    add_value(group, "--coordinates", whole_number, "S", "averages per client", coordinates)
    add_value(group, "--cohort", whole_number, "N", "clients per cohort", cohort)
    add_choice(
        group,
        "--clip",
        SHAPES,
        "box: clip each average; ball: clip the ℓ2 norm of all averages of a client",
        "box",
    )
    fewest = "fewest reports in a release; the noise of this many must suffice (default: the cohort)"
    add_value(group, "--minimum-reports", whole_number, "M", fewest)


def privacy_request(trust: str, options: argparse.Namespace) -> PrivacyRequest:
    """The privacy request of the options for one trust model."""
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
        coordinates=options.coordinates,
        cohort=options.cohort,
        bound=options.bound,
        shape=options.clip,
        minimum_reports=options.minimum_reports,
    )
