"""`dpbandits account --study`: the guarantee of each phase of a study, and of several studies together."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

from rich.table import Table

from dpbandits._checks import at_least_zero_below_one
from dpbandits.cli._reach import bounded
from dpbandits.cli._service_extra import require_service
from dpbandits.cli._terminal import console
from dpbandits.cli._writing import write_document
from dpbandits.design import support_bound
from dpbandits.errors import InvalidValue
from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate, may_use_ball
from dpbandits.privacy.accounting import Event, WorstOf, compose
from dpbandits.protocol import Study, ask

EXACT = "phase 1 as it will be planned"
LARGEST = (
    "later phases depend on releases; they are taken with the most numbers that a client can report: one "
    "average per action of the largest design, or, where the study may use them, as many statistics as the "
    "rank of the actions"
)
# Up to `_MOST_COMBINATIONS` combinations of phases are examined one by one. If there are more, one bound for
# all of them is computed. That is slow, so at most `_MOST_RELEASES` releases are then accepted.
_MOST_COMBINATIONS, _MOST_RELEASES = 100, 3


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A phase that asks a cohort, with the weakest of the mechanisms that it may use."""

    phase: int
    cohort: int
    minimum_reports: int
    numbers: int
    shape: str
    mechanism: str
    noise: str
    delta: float


@dataclass(frozen=True, kw_only=True)
class StudyAccount:
    """The guarantee of a client in each phase, and the weakest phase."""

    study: str
    privacy: dict[str, Any]
    phases: list[Phase]
    weakest: Phase
    assumed: list[str]


@dataclass(frozen=True, kw_only=True)
class Together:
    """The guarantee of a client that takes part in all studies, with `times` codes in each."""

    times: int
    group: int
    epsilon: float | None
    delta: float
    accountant: str


@dataclass(frozen=True, kw_only=True)
class _Accounted:
    request: PrivacyRequest
    account: StudyAccount
    events: tuple[Event, ...]  # the distinct events of the mechanisms of all phases


def run_studies(options: argparse.Namespace) -> int:
    """Account for each study, and for a client that takes part in all of them."""
    if options.result is not None or options.plot is not None:
        raise InvalidValue("study", options.study[0], "no RESULT and no --plot with --study")
    require_service()
    found = [_accounted(Path(path)) for path in options.study]
    together = _together(found, options)
    document = {"studies": [asdict(one.account) for one in found], "together": together and asdict(together)}
    write_document(document, options.json)
    if options.json != "-":
        _show([one.account for one in found], together)
    return 0


def _accounted(path: Path) -> _Accounted:
    from dpbandits.service.config import study_file, study_of

    study = study_of(study_file(path))
    if not study.privacy.trust_model.private:
        raise InvalidValue(f"{path}, privacy.trust", study.privacy.trust, "a private trust model")
    plan = ask(study.begin())
    if plan.mechanism is None:
        expected = "a horizon that is long enough for one phase to report"
        raise InvalidValue(f"{path}, study.horizon", study.horizon, expected)
    cohorts = _cohorts(study)
    later = [(number, _later(study, plan.rank, cohort)) for number, cohort in cohorts if number > 1]
    last = enumerate(_after_learning(study), len(cohorts) + 1)
    used: list[tuple[int, Sequence[Mechanism]]] = [(1, (plan.mechanism,)), *later, *last]
    phases = [_phase(study.privacy, number, mechanisms) for number, mechanisms in used]
    account = StudyAccount(
        study=str(path),
        privacy=asdict(study.privacy),
        phases=phases,
        weakest=max(phases, key=lambda phase: phase.delta),
        assumed=[EXACT] if len(phases) == 1 else [EXACT, LARGEST],
    )
    events = tuple(dict.fromkeys(one.event for _, mechanisms in used for one in mechanisms))
    return _Accounted(request=study.privacy, account=account, events=events)


def _cohorts(study: Study) -> list[tuple[int, int]]:
    """The number and the cohort of each phase that may learn, until the population is used up."""
    found, left = [], math.inf if study.population is None else study.population - study.after_learning
    for number in range(1, study.schedule.reporting_phases(study.horizon) + 1):
        cohort = study.schedule.cohort(number)
        left -= cohort
        if left < 0:
            break
        found.append((number, cohort))
    return found


def _later(study: Study, rank: int, cohort: int) -> Sequence[Mechanism]:
    """The mechanisms that a later phase may use, one per noise and shape, with the longest report."""
    averages = min(study.actions.count, math.floor(support_bound(rank)))
    kinds = [("box", averages)]
    if study.learning.recentred and study.learning.whitened:
        kinds.append(("ball", rank))
    return _calibrated(study, cohort, kinds)


def _after_learning(study: Study) -> list[Sequence[Mechanism]]:
    """The mechanisms that the fit test and the confirmation may use, if the study has them."""
    found, test, confirmation = list[Sequence[Mechanism]](), study.fit_test, study.confirmation
    if test is not None:
        kinds = [("box", test.coordinates), ("ball", test.coordinates)]
        found.append(_calibrated(study, test.cohort, kinds))
    if confirmation is not None:
        options = 1 + min(confirmation.finalists, study.actions.count - 1)
        found.append(_calibrated(study, confirmation.cohort, [("box", options)]))
    return found


def _calibrated(study: Study, cohort: int, kinds: Sequence[tuple[str, int]]) -> Sequence[Mechanism]:
    requests = [replace(study.privacy, noise=noise) for noise in study.privacy.noises]
    return [
        calibrate(request, coordinates=coordinates, cohort=cohort, bound=study.bound, shape=shape)
        for request in requests
        for shape, coordinates in kinds
        if shape == "box" or may_use_ball(request)
    ]


def _phase(request: PrivacyRequest, number: int, mechanisms: Sequence[Mechanism]) -> Phase:
    mechanism = max(mechanisms, key=lambda one: one.event.delta(request.epsilon))
    return Phase(
        phase=number,
        cohort=mechanism.cohort,
        # Noise that clients do not share suffices for any number of reports. The request sets a minimum then.
        minimum_reports=max(mechanism.minimum_reports, request.minimum_reports(mechanism.cohort)),
        numbers=mechanism.coordinates,
        shape=mechanism.shape,
        mechanism=mechanism.kind,
        noise=mechanism.noise_name,
        delta=mechanism.event.delta(request.epsilon),
    )


def _together(found: Sequence[_Accounted], options: argparse.Namespace) -> Together | None:
    """The worst combination of phases. A client takes part in one phase of a study per code."""
    if len(found) == 1 and options.times == options.group == 1 and options.at_delta is None:
        return None
    largest = max(one.request.delta for one in found)
    delta = largest if options.at_delta is None else at_least_zero_below_one(at_delta=options.at_delta)
    composed = _composed([one.events for one in found], options.times)
    epsilon, accountant = _worst([event.group(options.group) for event in composed], delta)
    return Together(
        times=options.times,
        group=options.group,
        epsilon=bounded(epsilon),
        delta=delta,
        accountant=accountant,
    )


def _composed(studies: Sequence[tuple[Event, ...]], times: int) -> list[Event]:
    """Every combination of `times` events per study, or one event that is at least as bad as all of them."""
    if math.prod(math.comb(len(events) + times - 1, times) for events in studies) <= _MOST_COMBINATIONS:
        choices = [list(combinations_with_replacement(events, times)) for events in studies]
        return [compose([one for part in parts for one in part]) for parts in product(*choices)]
    releases = len(studies) * times
    if releases > _MOST_RELEASES:
        raise InvalidValue("times", f"{releases} releases", f"at most {_MOST_RELEASES} with these phases")
    return [compose([WorstOf(events=events) for events in studies for _ in range(times)])]


def _worst(events: Sequence[Event], delta: float) -> tuple[float, str]:
    """The largest ε at this δ, and the accountant that computed it."""
    worst, epsilon = events[0], events[0].epsilon(delta)
    for event in events[1:]:
        if math.isfinite(epsilon) and (delta == 0 or event.delta(epsilon) > delta):
            worst, epsilon = max((worst, epsilon), (event, event.epsilon(delta)), key=lambda one: one[1])
    return epsilon, worst.accountant


def _show(accounts: Sequence[StudyAccount], together: Together | None) -> None:
    show = console(120).print
    for account in accounts:
        asked = account.privacy
        show(
            f"{account.study}: {asked['trust']}, {asked['preset']}, claimed ({asked['epsilon']:g}, "
            f"{asked['delta']:g})-DP, one client replaced"
        )
        table = Table("phase", "cohort", "reports at least", "numbers", "mechanism", "noise", "δ at most")
        for one in account.phases:
            table.add_row(
                str(one.phase),
                f"{one.cohort:,}",
                f"{one.minimum_reports:,}",
                f"{one.numbers} ({one.shape})",
                one.mechanism,
                one.noise,
                f"{one.delta:.6g}",
            )
        show(table)
        weakest = account.weakest
        verdict = "as claimed" if weakest.delta <= asked["delta"] * (1 + 1e-9) else "not proved"
        show(f"{verdict}: δ ≤ {weakest.delta:.6g} at ε = {asked['epsilon']:g}, in phase {weakest.phase}")
        for assumption in account.assumed:
            show(f"assumed: {assumption}")
    if together is not None:
        show(_sentence(len(accounts), together))


def _sentence(studies: int, together: Together) -> str:
    who = "a client" if together.group == 1 else f"a group of {together.group} clients"
    where = "in one phase of the study" if studies == 1 else f"in one phase of each of the {studies} studies"
    codes = "" if together.times == 1 else f" with {together.times} codes per study"
    shown = "no ε" if together.epsilon is None else f"ε = {together.epsilon:.6g}"
    return f"together: {who} {where}{codes} has {shown} at δ = {together.delta:g} ({together.accountant})"
