"""`dpbandits audit`: play the distinguishing game against the real mechanisms and report what it shows."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from dpbandits.checks import probability, whole
from dpbandits.cli.parser import number, output_path, whole_number
from dpbandits.errors import FloatingPointNoise, InvalidValue
from dpbandits.privacy import (
    NOISES,
    PRESETS,
    AuditResult,
    Mechanism,
    NoiseSource,
    PrivacyRequest,
    SecureNoise,
    SimulatedNoise,
    audit,
    calibrate,
)
from dpbandits.privacy.audit import CONFIDENCE, SAMPLES

PRIVATE = tuple(trust for trust, noises in NOISES.items() if noises)
ALL_NOISES = tuple(dict.fromkeys(noise for noises in NOISES.values() for noise in noises))


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What was played, and what came of it."""

    trust: str
    noise: str
    mechanism: Mechanism
    result: AuditResult


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "audit",
        help="try to refute a privacy claim by experiment",
        description="Play the distinguishing game against the real mechanisms. Status 0: the claim stands; "
        "1: it was refuted; 2: bad input.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.set_defaults(run=run)
    _add_claim(parser.add_argument_group("claim"))
    _add_game(parser.add_argument_group("game and output"))


def _add_claim(group: Any) -> None:
    default = PrivacyRequest()
    group.add_argument(
        "--trust",
        choices=PRIVATE,
        action="append",
        help="whom clients trust; repeat for several (default: all that have the noise)",
    )
    group.add_argument("--noise", choices=ALL_NOISES, help="the kind of noise (default: the preset's)")
    group.add_argument(
        "--preset",
        choices=PRESETS,
        default=default.preset,
        help="exact calibration, or the paper's constants",
    )
    group.add_argument("--epsilon", type=number, default=default.epsilon, metavar="E", help="claimed ε")
    group.add_argument("--delta", type=number, default=default.delta, metavar="D", help="claimed δ")
    group.add_argument("--bound", type=number, default=1.0, metavar="B", help="clients clip to [−B, B]")


def _add_game(group: Any) -> None:
    group.add_argument("--support", type=whole_number, default=4, metavar="S", help="averages per client")
    group.add_argument("--cohort", type=whole_number, default=8, metavar="N", help="clients that are asked")
    group.add_argument(
        "--minimum-reports",
        type=whole_number,
        metavar="M",
        help="answers that shared noise is calibrated to (default: the cohort)",
    )
    group.add_argument(
        "--samples", type=whole_number, default=SAMPLES, metavar="R", help="plays in each of the two worlds"
    )
    group.add_argument(
        "--confidence", type=number, default=CONFIDENCE, metavar="C", help="with which all of it holds"
    )
    group.add_argument(
        "--simulated-noise", action="store_true", help="the noise of simulations instead of the real one"
    )
    group.add_argument("--seed", type=whole_number, metavar="S", help="of the simulated noise (default: 0)")
    group.add_argument("--json", type=output_path, metavar="PATH", help="- for standard output")


def run(options: argparse.Namespace) -> int:
    """Audit every trust model, then say what was found."""
    _check(options)
    noise = _noise_source(options)
    planned = [(request, _mechanism(request, options)) for request in _requests(options)]
    audits = _play(planned, noise, options)
    document = as_json(audits)
    if options.json == "-":
        print(document)
    else:
        print("\n".join(map(describe, audits)))
    if options.json not in (None, "-"):
        Path(options.json).write_text(document + "\n", encoding="utf-8")
    return int(any(one.result.violated for one in audits))


def _check(options: argparse.Namespace) -> None:
    whole(100, samples=options.samples)
    probability(confidence=options.confidence)
    if options.minimum_reports is not None:
        whole(1, options.cohort, minimum_reports=options.minimum_reports)
    if options.seed is not None and not options.simulated_noise:
        raise InvalidValue("seed", options.seed, "none without --simulated-noise: the real noise has no seed")
    whole(0, seed=options.seed or 0)


def _noise_source(options: argparse.Namespace) -> NoiseSource:
    return (
        SimulatedNoise(np.random.default_rng(options.seed or 0)) if options.simulated_noise else SecureNoise()
    )


def _requests(options: argparse.Namespace) -> list[PrivacyRequest]:
    """One for each trust model; unless asked otherwise, for those that can have the noise."""
    able = [trust for trust in PRIVATE if options.noise in (None, *NOISES[trust])]
    return [
        PrivacyRequest(
            trust=trust,
            epsilon=options.epsilon,
            delta=options.delta,
            preset=options.preset,
            noise=options.noise,
        )
        for trust in dict.fromkeys(options.trust or able)
    ]


def _mechanism(request: PrivacyRequest, options: argparse.Namespace) -> Mechanism:
    if request.mechanism_noise == "gaussian" and not options.simulated_noise:
        raise FloatingPointNoise(
            f"noise: got gaussian for trust {request.trust}, expected --simulated-noise, or noise "
            "discrete-gaussian: floating-point noise is for simulations only"
        )
    return calibrate(
        request,
        support=options.support,
        cohort=options.cohort,
        bound=options.bound,
        minimum_reports=options.minimum_reports,
    )


def _play(
    planned: list[tuple[PrivacyRequest, Mechanism]], noise: NoiseSource, options: argparse.Namespace
) -> list[Audit]:
    columns = (
        TextColumn("playing"), BarColumn(), MofNCompleteColumn(), TextColumn("games"), TimeRemainingColumn()
    )  # fmt: skip
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("games", total=len(planned) * 2 * options.samples)
        return [
            _audit(request, mechanism, noise, options, lambda plays: progress.advance(task, plays))
            for request, mechanism in planned
        ]


def _audit(
    request: PrivacyRequest,
    mechanism: Mechanism,
    noise: NoiseSource,
    options: argparse.Namespace,
    advance: Callable[[int], None],
) -> Audit:
    result = audit(
        mechanism,
        noise,
        epsilon=request.epsilon,
        delta=request.delta,
        samples=options.samples,
        confidence=options.confidence,
        progress=advance,
    )
    return Audit(trust=request.trust, noise=request.mechanism_noise, mechanism=mechanism, result=result)


def as_json(audits: list[Audit]) -> str:
    """The figures of the audit that shows most, and of each one."""
    worst = max(audits, key=lambda one: (one.result.violated, one.result.epsilon_lower_bound))
    document = {**_as_dict(worst), "audits": [_as_dict(one) for one in audits]}
    return msgspec.json.format(msgspec.json.encode(document)).decode()


def _as_dict(one: Audit) -> dict[str, Any]:
    result = asdict(one.result)
    mechanism = asdict(one.mechanism)  # type: ignore[call-overload]  # every mechanism is a dataclass
    return {**result, "violated": one.result.violated, "trust": one.trust, "mechanism": mechanism}


def describe(one: Audit) -> str:
    """What was played, the bound, and whether the claim stands."""
    result, claim, bound = one.result, one.result.claimed, one.mechanism.bound
    lines = [
        f"{one.trust} with {one.noise} noise: {result.samples:,} plays with one client at −{bound:g} "
        f"in all of {one.mechanism.support} averages, as many at +{bound:g}",
        f"  claimed: ({claim.epsilon:g}, {claim.delta:g})-DP; shown: ε ≥ {result.epsilon_lower_bound:.3f} at "
        f"that δ, with confidence {result.confidence:.7g}",
    ]
    if result.violation is None:
        return "\n".join([*lines, "  the claim stands: nothing was seen that it does not allow"])
    point = result.violation
    refuted = (
        f"  THE CLAIM IS REFUTED: at ε = {point.epsilon:.4g} it allows δ = {point.delta:.4g}, and the view "
        f"gives away δ ≥ {point.delta_lower_bound:.4g}"
    )
    return "\n".join([*lines, refuted])
