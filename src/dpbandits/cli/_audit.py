"""`dpbandits audit`: try to refute a privacy claim by playing the distinguishing game."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpbandits._checks import probability, whole
from dpbandits.cli._parser import add_choice, add_flag, add_value, number, whole_number
from dpbandits.cli._privacy_options import (
    PRIVATE,
    add_mechanism_options,
    add_privacy_options,
    calibrated,
    offering,
    privacy_request,
)
from dpbandits.cli._terminal import progress_bar
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.errors import FloatingPointNoise, InvalidValue
from dpbandits.privacy import (
    AuditResult,
    Mechanism,
    NoiseSource,
    PrivacyRequest,
    SecureNoise,
    SimulatedNoise,
    audit,
)
from dpbandits.privacy.auditing import CONFIDENCE, SAMPLES

DESCRIPTION = (
    "Play the distinguishing game against the mechanisms as they run. Exit status: 0 if no violation was "
    "found, 1 if the claim was refuted, 2 after bad input."
)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """The mechanism that was audited, and the result."""

    trust: str
    mechanism: Mechanism
    result: AuditResult


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    claim = parser.add_argument_group("claim")
    trusts = "whom clients trust; repeat for several (default: every private model that offers --noise)"
    add_choice(claim, "--trust", PRIVATE, trusts, action="append")
    add_privacy_options(claim, epsilon=PrivacyRequest().epsilon, delta=PrivacyRequest().delta)
    add_mechanism_options(claim, coordinates=4, cohort=8)
    game = parser.add_argument_group("game and output")
    add_value(game, "--samples", whole_number, "R", "samples from each of the two data sets", SAMPLES)
    add_value(game, "--confidence", number, "C", "confidence level of all statements together", CONFIDENCE)
    add_flag(game, "--simulated-noise", "audit the noise of simulations instead of the secure noise")
    add_value(game, "--seed", whole_number, "S", "seed of the simulated noise (default: 0)")
    add_value(game, "--json", str, "PATH", "write every number; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Audit every trust model, and print or write the results."""
    check_writable(options.json)
    _check(options)
    noise = _noise_source(options)
    planned = [(request, _mechanism(request, options)) for request in _requests(options)]
    audits = _play(planned, noise, options)
    write_document(as_document(audits), options.json)
    if options.json != "-":
        print("\n".join(map(describe, audits)))
    return int(any(one.result.violated for one in audits))


def _check(options: argparse.Namespace) -> None:
    whole(100, samples=options.samples)
    probability(confidence=options.confidence)
    if options.seed is not None and not options.simulated_noise:
        raise InvalidValue(
            "seed", options.seed, "none without --simulated-noise, since secure noise has no seed"
        )
    whole(0, seed=options.seed or 0)


def _noise_source(options: argparse.Namespace) -> NoiseSource:
    if options.simulated_noise:
        return SimulatedNoise(np.random.default_rng(options.seed or 0))
    return SecureNoise()


def _requests(options: argparse.Namespace) -> list[PrivacyRequest]:
    """One request per trust model; by default, one for each private model that offers the noise."""
    trusts = options.trust or offering(options.noise)
    return [privacy_request(trust, options) for trust in dict.fromkeys(trusts)]


def _mechanism(request: PrivacyRequest, options: argparse.Namespace) -> Mechanism:
    if request.only_simulated and not options.simulated_noise:
        raise FloatingPointNoise(
            f"noise: got {request.mechanism_noise} for trust {request.trust}, expected --simulated-noise, or "
            "noise discrete-gaussian: floating-point noise is for simulations only"
        )
    return calibrated(request, options)


def _play(
    planned: list[tuple[PrivacyRequest, Mechanism]], noise: NoiseSource, options: argparse.Namespace
) -> list[Audit]:
    audits = list[Audit]()
    with progress_bar("playing", "games") as progress:
        task = progress.add_task("games", total=len(planned) * 2 * options.samples)
        for request, mechanism in planned:
            result = audit(
                mechanism,
                noise,
                epsilon=request.epsilon,
                delta=request.delta,
                samples=options.samples,
                confidence=options.confidence,
                progress=lambda plays: progress.advance(task, plays),
            )
            audits.append(Audit(trust=request.trust, mechanism=mechanism, result=result))
    return audits


def as_document(audits: list[Audit]) -> dict[str, Any]:
    """The figures of the audit with the strongest evidence, and under `audits` those of every audit."""
    worst = max(audits, key=lambda one: (one.result.violated, one.result.epsilon_lower_bound))
    return {**_as_dict(worst), "audits": [_as_dict(one) for one in audits]}


def _as_dict(one: Audit) -> dict[str, Any]:
    result = asdict(one.result)
    mechanism = asdict(one.mechanism)  # type: ignore[call-overload]  # every mechanism is a dataclass
    return {**result, "violated": one.result.violated, "trust": one.trust, "mechanism": mechanism}


def _where(mechanism: Mechanism) -> str:
    if mechanism.shape == "ball":
        return f" along the diagonal of {mechanism.coordinates} averages"
    return f" in all {mechanism.coordinates} averages"


def describe(one: Audit) -> str:
    """The audit as text: what was sampled, the lower bound, and whether the claim was refuted."""
    result, claim, bound = one.result, one.result.claimed, one.mechanism.bound
    lines = [
        f"{one.trust} with {one.mechanism.noise_name} noise: {result.samples:,} samples with one client at "
        f"−{bound:g}{_where(one.mechanism)}, and {result.samples:,} at +{bound:g}",
        f"  claimed: ({claim.epsilon:g}, {claim.delta:g})-DP; lower bound: ε ≥ "
        f"{result.epsilon_lower_bound:.3f} at that δ, with confidence {result.confidence:.7g}",
    ]
    if result.violation is None:
        return "\n".join([*lines, "  not refuted: no violation of the claim was found"])
    point = result.violation
    refuted = (
        f"  THE CLAIM IS REFUTED: at ε = {point.epsilon:.4g} it allows δ = {point.delta:.4g}, but the "
        f"samples show δ ≥ {point.delta_lower_bound:.4g}"
    )
    return "\n".join([*lines, refuted])
