"""`dpbandits account`: compute the privacy of a mechanism, of studies, or of a finished simulation."""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table

from dpbandits._checks import at_least_zero_below_one, whole
from dpbandits.cli._account_study import run_studies
from dpbandits.cli._modes import modes_of, shown_mode
from dpbandits.cli._noises import above_least_local, compared_noises, shown_noises
from dpbandits.cli._parser import add_choice, add_value, number, whole_number
from dpbandits.cli._plot import check_plot, plot_curve
from dpbandits.cli._privacy_options import (
    PRIVATE,
    add_mechanism_options,
    add_privacy_options,
    calibrated,
    privacy_request,
)
from dpbandits.cli._reach import bounded, reach_of, shown_reach
from dpbandits.cli._terminal import console
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.errors import InvalidValue
from dpbandits.privacy import Mechanism, PrivacyRequest
from dpbandits.privacy.accounting import Event, gaussian_noise_ratio
from dpbandits.protocol import decode, encode

DESCRIPTION = (
    "Compute the exact privacy of a mechanism: bounds on δ at the claimed ε, ε at a chosen δ, the whole δ(ε) "
    "curve, and the error that the noise adds. With RESULT, a JSON file written by `dpbandits simulate`, "
    "account for the mechanisms of that simulation instead. With --study, account for deployed studies."
)
# Where the curve is shown, as multiples of the claimed ε.
_MULTIPLES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("result", nargs="?", metavar="RESULT", help="a JSON file of `dpbandits simulate`")
    parser.add_argument(
        "--study",
        metavar="STUDY.toml",
        action="append",
        help="account for the study in a study file; repeat it for a client that takes part in several "
        "studies; --times is then the number of enrolment codes that the client has in each study",
    )
    group = parser.add_argument_group("mechanism, without RESULT and --study")
    _add_mechanism(group)
    question = parser.add_argument_group("question and output")
    add_value(question, "--at-delta", number, "D", "compute ε at this δ (default: the claimed δ)")
    add_value(question, "--times", whole_number, "M", "account for a client in M phases", 1)
    add_value(question, "--group", whole_number, "K", "account for a group of K clients", 1)
    add_value(question, "--json", str, "PATH", "write every number; - for standard output")
    add_value(
        question, "--plot", str, "PATH.png", "draw the δ(ε) curve, with RESULT that of its first mechanism"
    )


def _add_mechanism(group: Any) -> None:
    add_choice(group, "--trust", PRIVATE, "whom clients trust", "shuffle")
    add_privacy_options(group, epsilon=1.0, delta=1e-6)
    add_mechanism_options(group, coordinates=60, cohort=1000)


def _check_unused(options: argparse.Namespace) -> None:
    """Check that no mechanism is described if those of a file are accounted for."""
    parser = argparse.ArgumentParser()
    _add_mechanism(parser)
    for name, default in vars(parser.parse_args([])).items():
        if (given := getattr(options, name)) != default:
            expected = "none with RESULT or --study: the file has its own mechanisms"
            raise InvalidValue(f"--{name.replace('_', '-')}", given, expected)


@dataclass(frozen=True, kw_only=True)
class Account:
    """The claimed guarantee, the one that holds, the error that the noise adds, and the δ(ε) curve."""

    claimed: dict[str, float]
    holds: dict[str, float | None]
    error: dict[str, float | None]
    compared: dict[str, float]
    """The predicted radius of the error of a mean with each noise that the request allows."""
    reach: dict[str, float | None]
    modes: list[dict[str, Any]]
    """Reach, bytes and processor time per report in each mode of the shuffler; empty without one."""
    parameters: dict[str, Any]
    curve: list[dict[str, float]]


def run(options: argparse.Namespace) -> int:
    """Print the account, or write it as JSON."""
    check_plot(options.plot)
    check_writable(options.json)
    whole(1, times=options.times)
    whole(1, group=options.group)
    if options.study or options.result:
        _check_unused(options)
    if options.study:
        return run_studies(options)
    if options.result:
        cases = _from_result(Path(options.result))
    else:
        request = privacy_request(options.trust, options)
        cases = [(request, calibrated(request, options))]
    accounts = [_account(request, mechanism, options) for request, mechanism in cases]
    documents = [asdict(account) for account in accounts]
    write_document(documents[0] if options.result is None else documents, options.json)
    if options.json != "-":
        for account in accounts:
            _show(account)
    if options.plot is not None:
        plot_curve(accounts[0].claimed, accounts[0].curve, Path(options.plot))
        print(f"plot of δ(ε): {options.plot}", file=sys.stderr)
    return 0


def _from_result(path: Path) -> list[tuple[PrivacyRequest, Mechanism]]:
    """The request of each private row of a simulation's JSON, and the weakest mechanism of the row.

    With a sampled share, it is secret who was asked. The account is then for a client who is known to be
    asked.
    """
    if not path.is_file():
        raise InvalidValue("RESULT", path, "an existing JSON file that `dpbandits simulate` wrote")
    try:
        document = msgspec.json.decode(path.read_bytes())
        cases = []
        for result in document["results"]:
            request = PrivacyRequest(**result["privacy"])
            if result["mechanism"] is not None:
                mechanism = decode(encode(result["mechanism"]), Mechanism)  # type: ignore[type-abstract]
                cases.append((request.of_members, mechanism))
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise InvalidValue("RESULT", path, f"a JSON file that `dpbandits simulate` wrote ({error})") from None
    if not cases:
        raise InvalidValue("RESULT", path, "at least one private trust model")
    return cases


def _account(request: PrivacyRequest, mechanism: Mechanism, options: argparse.Namespace) -> Account:
    event: Event = mechanism.event.repeated(options.times).group(options.group)
    lower, upper = event.delta_bounds(request.epsilon)
    given = options.at_delta
    at_delta = request.delta if given is None else at_least_zero_below_one(at_delta=given)
    return Account(
        claimed={"epsilon": request.epsilon, "delta": request.delta},
        holds={
            "epsilon": request.epsilon,
            "delta_lower": lower,
            "delta_upper": upper,
            "at_delta": at_delta,
            "epsilon_at_delta": bounded(event.epsilon(at_delta)),
        },
        error=_error(request, mechanism),
        compared=compared_noises(request, mechanism),
        reach=reach_of(mechanism),
        modes=modes_of(mechanism),
        parameters={
            **asdict(mechanism),  # type: ignore[call-overload]
            "trust": request.trust,
            "noise": mechanism.noise_name,
            "preset": request.preset,
            "minimum_reports": mechanism.minimum_reports,
            "message": f"{mechanism.message_size} {mechanism.unit}",
            "neighbouring": "replace-one",
            "accountant": event.accountant,
            "needs": mechanism.needs,
            "times": options.times,
            "group": options.group,
        },
        curve=_curve(event, request.epsilon),
    )


def _curve(event: Event, claimed: float) -> list[dict[str, float]]:
    points, high = [], 1.0
    for multiple in _MULTIPLES:
        low, bound = event.delta_bounds(multiple * claimed)
        high = min(high, bound)  # the true δ never grows with ε, so a bound at a smaller ε also holds here
        points.append({"epsilon": multiple * claimed, "delta_lower": low, "delta_upper": high})
    return points


def _error(request: PrivacyRequest, mechanism: Mechanism) -> dict[str, float | None]:
    """The standard deviation of a mean, and its ratios to central Gaussian noise and to the local optimum."""
    deviation = mechanism.error_deviation(mechanism.cohort)
    least = above_least_local(mechanism)
    if request.pure:
        return {"sd_of_mean": deviation, "ratio_to_central_gaussian": None, "ratio_to_least_local": least}
    distance = 2 * mechanism.bound * (1 if mechanism.shape == "ball" else math.sqrt(mechanism.coordinates))
    gaussian = gaussian_noise_ratio(request.epsilon, request.delta) * distance / mechanism.cohort
    ratio = deviation / gaussian
    return {"sd_of_mean": deviation, "ratio_to_central_gaussian": ratio, "ratio_to_least_local": least}


def _show(account: Account) -> None:
    show = console(120).print
    given, holds, error = account.parameters, account.holds, account.error
    epsilon, delta = account.claimed["epsilon"], account.claimed["delta"]
    show(
        f"{given['trust']}, {given['noise']} noise, {given['preset']}: {given['cohort']:,} clients × "
        f"{given['coordinates']} numbers in {_region(given)}, {given['message']} each"
    )
    show(f"claimed   ({epsilon:g}, {delta:g})-DP, one client replaced")
    show(f"holds     {_verdict(account)}")
    at_delta = holds["epsilon_at_delta"]
    shown = "no ε" if at_delta is None else f"ε = {at_delta:.6g}"
    show(f"          {shown} at δ = {holds['at_delta']:g}; assumes: {given['needs']}")
    ratio = error["ratio_to_central_gaussian"]
    gaussian = "that of exact Gaussian noise added by a trusted server"
    compared = "" if ratio is None else f", {ratio:.4g} × {gaussian}"
    show(f"error     standard deviation {error['sd_of_mean']:.6g} of each mean{compared}")
    if (least := error["ratio_to_least_local"]) is not None:
        show(f"          {least:.4g} × the least variance of any unbiased report that trusts nobody")
    if account.compared:
        show(f"noise     {shown_noises(account.compared, given['noise'])}")
    show(f"reach     {shown_reach(account.reach, given['trust'])}")
    for place, entry in enumerate(account.modes):
        show(f"{'' if place else 'modes':10}{shown_mode(entry)}")
    title = f"accountant: {given['accountant']}"
    table = Table("ε", "δ at least", "δ at most", title=title, title_justify="left")
    for point in account.curve:
        table.add_row(f"{point['epsilon']:.4g}", f"{point['delta_lower']:.6g}", f"{point['delta_upper']:.6g}")
    show(table)


def _region(given: dict[str, Any]) -> str:
    if given.get("shape") == "ball":
        return f"a ball of radius {given['bound']:g}"
    return f"[−{given['bound']:g}, {given['bound']:g}]"


def _verdict(account: Account) -> str:
    delta, upper, lower = account.claimed["delta"], account.holds["delta_upper"], account.holds["delta_lower"]
    assert upper is not None
    assert lower is not None
    true = f"δ = {upper:.6g} at ε = {account.claimed['epsilon']:g}"
    if lower > delta:
        return f"[bold red]NOT AS CLAIMED[/]: {true}"
    return f"as claimed: {true}" if upper <= delta * (1 + 1e-9) else f"not proved: the proved bound is {true}"
