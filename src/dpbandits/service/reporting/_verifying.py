"""`verify`: verifies a report by replaying the study from its releases, with the code that ran it.

Every plan must follow from the releases before it, every guarantee from its mechanism, and the answer from
all releases. A signature proves nothing about the content of a record: it only says who is responsible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbandits import __version__
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import guarantee
from dpbandits.protocol import Plan, Release, State, Study, ask, decode, encode, tell
from dpbandits.service.coordinator import Journalled
from dpbandits.service.reporting._file import Sheet
from dpbandits.service.reporting._page import page_of
from dpbandits.service.reporting._record import Record, parse_record
from dpbandits.service.reporting._recording import conclusion_of, plain
from dpbandits.service.reporting._statement_check import check_statement
from dpbandits.service.reporting._verdict import Mismatch, Verdict, require
from dpbandits.service.wire import RECORD, VerifyKey, hashed, proved_delta, terms_of
from dpbandits.storage import PlanRecord, ReleaseRecord

_ROUNDING = 1e-9  # relative: another processor may round the last bits of an answer differently


@dataclass(frozen=True, kw_only=True)
class Keys:
    """The public keys that the reader knows from another source; None for a key that is not known.

    Attributes:
        coordinator: The key with which the coordinator signs reports.
        shuffler: The key with which the shuffler signs statements.
        terms: The key that signed the terms.
    """

    coordinator: VerifyKey | None = None
    shuffler: VerifyKey | None = None
    terms: VerifyKey | None = None


def verify(page: bytes, *, keys: Keys | None = None, actions: Actions | None = None) -> Verdict:
    """Check a report.

    Args:
        page: The content of the HTML file.
        keys: The keys that the reader knows; None for none.
        actions: The action set. It is needed if the set is too large to be part of the record.

    Returns:
        The verdict. A forged report does not raise an error: a check of the verdict fails.

    Raises:
        InvalidValue: The action set is needed and was not given.
    """
    verdict, found = Verdict(), list[Record]()
    sheets = list[Sheet]()
    readable = verdict.check("the file is a report of dpbandits", lambda: sheets.append(Sheet.read(page)))
    if not readable:
        return verdict
    sheet = sheets[0]
    if not verdict.check("the record is complete", lambda: found.append(parse_record(sheet.text))):
        return verdict
    record = found[0]
    if record.options is None and record.actions is None and actions is None:
        raise InvalidValue("actions", None, "the file of the action set (--actions): the record has too many")
    _Verifying(verdict, sheet, record, keys or Keys(), actions).run(page)
    return verdict


class _Verifying:
    def __init__(
        self, verdict: Verdict, sheet: Sheet, record: Record, keys: Keys, actions: Actions | None
    ) -> None:
        self._verdict, self._sheet, self._record = verdict, sheet, record
        self._keys, self._given = keys, actions

    def run(self, page: bytes) -> None:
        check = self._verdict.check
        if not check("the coordinator signed the record", self._signed):
            return
        if not check("the options are those of the study", self._check_options):
            return
        if self._record.terms is not None:
            check("the terms are those of the study", self._check_terms)
        if not check("every plan follows from the releases before it", self._check_plans):
            return
        check("every plan has the promised privacy", self._check_mechanisms)
        check("the guarantee follows from the mechanisms", self._check_guarantee)
        check("the counts of clients are consistent", self._check_counts)
        check("the progress follows from the releases", self._check_progress)
        check("the answer follows from the releases", self._check_conclusion)
        if self._study.privacy.trust_model.shuffler:
            claim = "the shuffler signed a statement from which the same releases follow"
            check(claim, self._check_statement)
        if self._record.software == __version__:
            check("the page shows the record", lambda: self._check_page(page))
        self._list_unverified()

    def _signed(self) -> None:
        signed, key = self._sheet.signed, self._keys.coordinator
        require(signed.fits(RECORD, self._sheet.text), "the signature does not fit the record")
        require(key is None or str(key) == signed.key, f"it was signed by another key, {signed.key}")

    @cached_property
    def _actions(self) -> Actions:
        record = self._record
        if record.options is not None:
            return record.options.actions
        if record.actions is not None:
            return Actions(np.array(record.actions))
        assert self._given is not None
        return self._given

    @cached_property
    def _study(self) -> Study:
        study = decode(self._record.study, Study, actions=self._actions)
        require(encode(study).decode() == self._record.study, "the study is not in the form of this version")
        return study

    def _check_options(self) -> None:
        record, study = self._record, self._study
        if self._given is not None:
            require(self._given.digest == study.actions.digest, "the action file is not that of the study")
        if record.options is not None:
            require(record.options.digest == study.options, "the options have another digest than the study")
        elif not record.scrubbed:
            require(study.options == "", "the study has options, and the record does not list them")
        require(record.count == study.actions.count, "the record counts another number of options")
        require(not record.scrubbed or record.terms is None, "a scrubbed record has no terms")
        require(record.scrubbed or record.terms is not None, "the record has no terms")

    def _check_terms(self) -> None:
        signed, study = self._record.terms, self._study
        assert signed is not None
        terms = signed.opened()
        require(signed.digest == study.terms, "the plans belong to other terms")
        require(not terms.conformance, "these are the terms of a test, not of a study")
        expected = terms_of(
            study, run=terms.run, coordinator=terms.coordinator, shuffler=terms.shuffler, mode=terms.mode
        )
        require(terms == expected, "the terms are not those of the study")
        key = self._keys.terms
        require(key is None or signed.signed_by(key), "the terms were not signed with the given key")

    @cached_property
    def _plans(self) -> list[Plan]:
        return [decode(phase.plan, Plan) for phase in self._record.phases]

    def _check_plans(self) -> None:
        _ = self._state

    @cached_property
    def _state(self) -> State:
        """The state after replaying all phases that have ended."""
        state, private = self._study.begin(), self._study.privacy.trust_model.private
        for place, (phase, plan) in enumerate(zip(self._record.phases, self._plans, strict=True)):
            require(place == len(self._plans) - 1 or phase.ended, "a phase in the middle has not ended")
            same = ask(state).digest == hashed(phase.plan) == plan.digest
            require(same, f"the plan of phase {state.phase} is not the one that the study computes")
            if not phase.ended:
                require(phase.release is None and phase.sums is None, "a phase was released before its end")
                break
            release = None if phase.release is None else decode(phase.release, Release)
            simulated = private and release is not None and release.simulated
            require(
                not simulated, f"phase {state.phase} was released with simulated noise, which protects nobody"
            )
            state = tell(state, plan, release)
        return state

    def _check_mechanisms(self) -> None:
        privacy, signed = self._study.privacy, self._record.terms
        for plan in self._plans:
            if signed is not None and plan.asks:
                signed.opened().check(plan, self._study.name)
            elif plan.asks and privacy.trust_model.private:
                proved = proved_delta(plan.asked_mechanism, privacy.epsilon)
                require(proved <= privacy.delta, f"phase {plan.phase}: δ = {proved:g}, not {privacy.delta:g}")

    def _check_guarantee(self) -> None:
        used = [plan.mechanism for plan in self._plans if plan.mechanism is not None]
        found = guarantee(self._study.privacy, used)
        stated = self._record.conclusion.guarantee
        if found is None or stated is None:
            require(found is None and stated is None, "a guarantee is stated where there is none, or missing")
            return
        for name in stated.__struct_fields__:
            _same(plain(getattr(stated, name)), plain(getattr(found, name)), name)

    def _check_counts(self) -> None:
        by_phase = dict[int, list[int]]()
        for attempt in self._record.attempts:
            by_phase.setdefault(attempt.phase, []).append(attempt.number)
        expected = {plan.phase: list(range(1, len(by_phase.get(plan.phase, [])) + 1)) for plan in self._plans}
        require(by_phase == expected and all(expected.values()), "attempts are missing, or counted twice")
        for place, attempt in enumerate(self._record.attempts):
            following = self._record.attempts[place + 1 : place + 2]
            last = not following or following[0].phase != attempt.phase
            self._check_attempt(place, last=last)

    def _check_attempt(self, place: int, *, last: bool) -> None:
        attempt = self._record.attempts[place]
        plan, phase = self._plans[attempt.phase - 1], self._record.phases[attempt.phase - 1]
        where = f"phase {attempt.phase}, attempt {attempt.number}"
        require(0 <= attempt.asked <= plan.cohort, f"{where}: {attempt.asked:,} were asked")
        require((attempt.answered or 0) in range(attempt.asked + 1), f"{where}: {attempt.answered} answered")
        if not last:
            require(attempt.state == "failed", f"{where} did not fail, and was repeated")
        if not (last and phase.ended):
            return
        require(attempt.state == ("released" if plan.asks else "done"), f"{where} is {attempt.state}")
        if phase.release is None:
            return
        reports, least = (
            decode(phase.release, Release).reports,
            self._study.privacy.minimum_reports(plan.cohort),
        )
        require(reports >= least, f"{where}: {reports:,} reports, fewer than the minimum {least:,}")
        require(
            attempt.answered == reports, f"{where}: {attempt.answered} answered, {reports:,} were released"
        )

    def _check_progress(self) -> None:
        _same(plain(self._record.progress), plain(list(self._state.progress)), "progress")

    def _check_conclusion(self) -> None:
        journalled = Journalled(
            state=self._state,
            plans=tuple(
                PlanRecord(phase=plan.phase, digest=plan.digest, body=phase.plan.encode())
                for plan, phase in zip(self._plans, self._record.phases, strict=True)
            ),
            releases=tuple(
                ReleaseRecord(phase=plan.phase, attempt=1, body=phase.release.encode())
                for plan, phase in zip(self._plans, self._record.phases, strict=True)
                if phase.release is not None
            ),
        )
        found = conclusion_of(journalled, self._record.options)
        _same(plain(self._record.conclusion), plain(found), "conclusion")

    def _check_statement(self) -> None:
        check_statement(self._record, self._study, self._plans, self._keys.shuffler)

    def _check_page(self, page: bytes) -> None:
        same = page_of(self._sheet.text, self._record, self._sheet.signed).encode() == page
        require(same, "the text of the page is not the one that follows from the record")

    def _list_unverified(self) -> None:
        say, model, record = self._verdict.unverified.append, self._study.privacy.trust_model, self._record
        if self._keys.coordinator is None:
            say(f"that {self._sheet.signed.key} is the coordinator's key: pass --keys coordinator=…")
        if model.shuffler and self._keys.shuffler is None:
            say("that the shuffler's key is the one in its statement: pass --keys shuffler=…")
        if record.scrubbed:
            say("the terms, the names of the options and the date: they are not in a scrubbed report")
        elif self._keys.terms is None:
            say("that somebody whom clients trust signed the terms: pass --keys terms=…")
        if record.software != __version__:
            say(f"the text of the page: version {record.software} wrote it, and this is {__version__}")
        if model.noise_by == "server":
            say(
                "that the coordinator drew the noise as planned, and that the releases are those of real "
                "reports"
            )
        elif not model.shuffler:
            say("that the releases are the sums of the reports that clients sent")
        else:
            say("that coordinator and shuffler do not collude")
        if not record.conclusion.ended and not model.shuffler:
            say("that no later phase was left out: the study has not ended")
        say("that each client is another person, and what clients reported")
        stated = record.conclusion.guarantee
        say(f"what the guarantee rests on: {'there is no guarantee' if stated is None else stated.needs}")


def _same(stated: Any, found: Any, where: str) -> None:
    """Raise `Mismatch` unless two JSON values are equal, up to the rounding of numbers."""
    if isinstance(stated, dict) and isinstance(found, dict):
        require(stated.keys() == found.keys(), f"{where}: it has other fields")
        for name, value in stated.items():
            _same(value, found[name], f"{where}.{name}")
    elif isinstance(stated, list) and isinstance(found, list):
        require(len(stated) == len(found), f"{where}: {len(stated):,} entries, expected {len(found):,}")
        for place, (one, other) in enumerate(zip(stated, found, strict=True)):
            _same(one, other, f"{where}[{place}]")
    elif _is_number(stated) and _is_number(found):
        near = math.isclose(stated, found, rel_tol=_ROUNDING, abs_tol=_ROUNDING)
        require(near, f"{where}: the record states {stated}, expected {found}")
    elif stated != found:
        raise Mismatch(f"{where}: the record states {stated}, expected {found}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
