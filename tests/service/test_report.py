"""Reports are accepted if nothing was changed, in every trust model, and rejected after each forgery.

The forger of most tests is the coordinator itself: it changes the record, signs it again with its own key
and makes a page that shows the changed record.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue, ProtocolError
from dpbandits.options import Options
from dpbandits.privacy import SecureNoise
from dpbandits.protocol import Confirmation, Plan, Release, State, ask, decode, encode, replay, tell
from dpbandits.service.coordinator import StudyHistory, read_history
from dpbandits.service.reporting import (
    Keys,
    Record,
    Sheet,
    Verdict,
    _recording as recording,
    report_page,
    verify,
)
from dpbandits.service.reporting._page import page_of
from dpbandits.service.reporting._record import record_text
from dpbandits.service.shuffler import statement
from dpbandits.service.wire import RECORD, STATEMENT, KeyPair, Signed, SigningKey, StatementReply

from .helpers import MODELS, Deployment, small_study
from .test_http import Live, shuffler

__all__ = ["shuffler"]  # a fixture

OPTIONS = Options.grid(tilt=[2, 4, 6], power=[10, 20], current="tilt=2, power=10")

CONFIRMATION = Confirmation(current=0, cohort=8, plays=2)


@dataclass(frozen=True)
class Written:
    """A finished study and its report."""

    deployed: Deployment
    history: StudyHistory
    told: StatementReply | None
    page: bytes

    @property
    def keys(self) -> Keys:
        own = SigningKey.of(self.deployed.keys).public
        theirs = None if self.told is None else SigningKey.of(self.deployed.shuffler_keys).public
        return Keys(coordinator=own, shuffler=theirs)

    @property
    def record(self) -> Record:
        return decode(Sheet.read(self.page).text, Record)

    def forged(self, **changes: Any) -> bytes:
        return signed_page(msgspec.structs.replace(self.record, **changes), self.deployed.keys)

    def check(self, page: bytes) -> Verdict:
        return verify(page, keys=self.keys)


def signed_page(record: Record, keys: KeyPair) -> bytes:
    text = record_text(record)
    return page_of(text, record, Signed.by(SigningKey.of(keys), RECORD, text)).encode()


def written(trust: str, mode: str | None, **changes: Any) -> Written:
    options = changes.pop("with_options", None)
    if options is not None:
        changes |= {"actions": options.actions, "options": options.digest}
    deployed = Deployment(small_study(trust, **changes), mode, noise=SecureNoise(), options=options)
    deployed.whole_study()
    history, told = read_history(deployed.study.without_terms, options, deployed.store), None
    if deployed.link is not None:
        shuffler = deployed.link.shuffler
        told = shuffler.writer.run("read", lambda t: statement(shuffler, t))
    page = report_page(history, options, deployed.keys, written="2026-01-02", statement=told)
    return Written(deployed, history, told, page.encode())


@pytest.fixture(scope="module")
def split() -> Written:
    return written("shuffle", "split")


@pytest.fixture(scope="module")
def central() -> Written:
    return written("central", None, with_options=OPTIONS, confirmation=CONFIRMATION)


@pytest.mark.parametrize(("trust", "mode"), [one for one in MODELS if one[0] != "central"])
def test_an_untouched_report_is_accepted(trust: str, mode: str | None, split: Written) -> None:
    made = split if mode == "split" else written(trust, mode, confirmation=CONFIRMATION)
    verdict = made.check(made.page)
    assert verdict.accepted, verdict.checks
    assert not any("--keys coordinator" in text for text in verdict.unverified)
    unknown = verify(made.page)
    assert unknown.accepted
    assert any("--keys coordinator" in text for text in unknown.unverified)
    assert b"<script" not in made.page
    assert (
        b"http://"
        not in made.page.replace(b"http://www.w3.org/2000/svg", b"").partition(b'<pre id="record">')[0]
    )


def test_a_scrubbed_report_is_accepted_and_names_nothing(central: Written) -> None:
    assert central.check(central.page).accepted
    assert b"tilt=2, power=10" in central.page
    assert b"whatever the model, from 8 clients" in central.page
    page = report_page(central.history, OPTIONS, central.deployed.keys, written="2026-01-02", scrubbed=True)
    assert central.check(page.encode()).accepted
    for name in ("tilt", "power=10", "127.0.0.1", "2026-01-02"):
        assert name not in page
        assert name.encode() in central.page


def _release(record: Record, phase: int, **changes: Any) -> list[Any]:
    """The phases with a changed release."""
    phases = list(record.phases)
    text = phases[phase].release
    assert text is not None
    phases[phase] = msgspec.structs.replace(
        phases[phase], release=json.dumps({**json.loads(text), **changes})
    )
    return phases


def _mean(record: Record) -> dict[str, Any]:
    means = list(decode(record.phases[1].release or "", Release).means)
    return {"phases": _release(record, 1, means=[means[0] + 0.01, *means[1:]])}


def _reports(record: Record) -> dict[str, Any]:
    return {
        "phases": _release(record, 1, reports=decode(record.phases[1].release or "", Release).reports - 1)
    }


def _attempt(place: int, **changes: Any) -> Callable[[Record], dict[str, Any]]:
    def change(record: Record) -> dict[str, Any]:
        attempts = list(record.attempts)
        attempts[place] = msgspec.structs.replace(attempts[place], **changes)
        return {"attempts": attempts}

    return change


def _setting(**changes: Any) -> Callable[[Record], dict[str, Any]]:
    def change(record: Record) -> dict[str, Any]:
        study = json.loads(record.study)
        study["privacy"] |= changes
        return {"study": encode_in_order(study)}

    return change


def encode_in_order(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _plan(record: Record) -> dict[str, Any]:
    plan = json.loads(record.phases[0].plan)
    plan["mechanism"]["scale"] *= 0.9
    phases = list(record.phases)
    phases[0] = msgspec.structs.replace(phases[0], plan=encode_in_order(plan))
    return {"phases": phases}


def _guarantee(**changes: Any) -> Callable[[Record], dict[str, Any]]:
    def change(record: Record) -> dict[str, Any]:
        stated = msgspec.structs.replace(record.conclusion.guarantee, **changes)
        return {"conclusion": msgspec.structs.replace(record.conclusion, guarantee=stated)}

    return change


def _actions(record: Record) -> dict[str, Any]:
    assert record.actions is not None
    return {"actions": [record.actions[1], record.actions[0], *record.actions[2:]]}


FORGERIES: dict[str, tuple[Callable[[Record], dict[str, Any]], str]] = {
    "a mean": (_mean, "the answer follows"),
    "the reports of a release": (_reports, "every plan follows"),
    "a phase is missing": (lambda record: {"phases": record.phases[1:]}, "every plan follows"),
    "the last phases are missing": (lambda record: {"phases": record.phases[:1]}, "the counts"),
    "a phase is repeated": (
        lambda record: {"phases": [record.phases[0], *record.phases]},
        "every plan follows",
    ),
    "the answered": (_attempt(0, answered=5), "the counts"),
    "the asked": (_attempt(1, asked=9, answered=9), "the counts"),
    "an attempt is missing": (lambda record: {"attempts": record.attempts[1:]}, "the counts"),
    "epsilon": (_setting(epsilon=19.0), "the terms"),
    "delta": (_setting(delta=1e-4), "the terms"),
    "the form of the study": (_setting(epsilon=20), "the options"),
    "the stated epsilon": (_guarantee(epsilon=1.0), "the guarantee"),
    "the stated delta": (_guarantee(delta=1e-9), "the guarantee"),
    "a noise scale": (_plan, "every plan follows"),
    "the actions": (_actions, "the options"),
    "the progress": (lambda record: {"progress": record.progress[:-1]}, "the progress"),
    "no statement": (lambda _record: {"statement": None}, "the shuffler"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_record_that_the_coordinator_changed_is_rejected(name: str, split: Written) -> None:
    change, claim = FORGERIES[name]
    verdict = split.check(split.forged(**change(split.record)))
    failed = [check.claim for check in verdict.checks if not check.passed]
    assert any(one.startswith(claim) for one in failed), (failed, claim)


def _lied(made: Written) -> StudyHistory:
    """The course of a coordinator that changed its last release and computed everything after it again."""
    journalled = made.history.journalled
    *releases, last = journalled.releases
    body = json.loads(last.body)
    body["means"][0] += 0.01
    releases.append(replace(last, body=encode_in_order(body).encode()))
    state, release = (
        journalled.state.study.begin(),
        {one.phase: decode(one.body, Release) for one in releases},
    )
    for plan in [decode(record.body, Plan) for record in journalled.plans]:
        state = tell(state, plan if plan.asks else ask(state), release.get(plan.phase))
    plans = [replace(one, **_planned(state, one.phase)) for one in journalled.plans]
    return replace(
        made.history,
        journalled=replace(journalled, state=state, releases=tuple(releases), plans=tuple(plans)),
    )


def _planned(state: State, phase: int) -> dict[str, Any]:
    """The digest and the body of the plan of a phase, as the study computes it from the changed releases."""
    releases = [
        Release(plan=one.plan.digest, means=one.means, reports=one.reports, simulated=False)
        for one in state.released[: phase - 1]
    ]
    plan = ask(replay(state.study, releases))
    return {"digest": plan.digest, "body": encode(plan)}


def test_a_changed_mean_with_everything_computed_again_contradicts_the_shuffler(
    split: Written, central: Written
) -> None:
    page = report_page(_lied(central), OPTIONS, central.deployed.keys).encode()
    verdict = central.check(page)
    assert verdict.accepted  # only the coordinator saw the reports; this is listed
    assert any("drew the noise as planned" in text for text in verdict.unverified)
    with pytest.raises(ProtocolError, match="other sums were released"):
        report_page(_lied(split), None, split.deployed.keys, statement=split.told)


def _restated(made: Written, keys: KeyPair, change: Callable[[dict[str, Any]], None]) -> bytes:
    """The report with a changed statement of the shuffler, signed with these keys."""
    assert made.told is not None
    told = json.loads(made.told.text)
    change(told)
    text = encode_in_order(told)
    signed = Signed.by(SigningKey.of(keys), STATEMENT, text)
    return made.forged(statement=StatementReply(text=text, signed=signed))


def test_a_statement_that_does_not_match_is_rejected(split: Written) -> None:
    def same(_told: dict[str, Any]) -> None:
        pass

    def other_sums(told: dict[str, Any]) -> None:
        told["collections"][0]["sums"][0] ^= 1

    def other_count(told: dict[str, Any]) -> None:
        told["collections"][1]["reports"] -= 1

    def other_minimum(told: dict[str, Any]) -> None:
        told["minimum_reports"] = 7

    def one_more(told: dict[str, Any]) -> None:
        told["collections"].append({**told["collections"][1], "attempt": 2})

    def other_study(told: dict[str, Any]) -> None:
        told["study"] = "0" * 64

    own = split.deployed.shuffler_keys
    assert split.check(_restated(split, own, same)).accepted
    assert not split.check(_restated(split, split.deployed.keys, same)).accepted  # signed by the coordinator
    for change in (other_sums, other_count, other_minimum, one_more, other_study):
        verdict = split.check(_restated(split, own, change))
        (failed,) = [one.claim for one in verdict.checks if not one.passed]
        assert failed.startswith("the shuffler signed"), change


def test_a_report_signed_by_another_key_is_rejected(split: Written) -> None:
    page = signed_page(split.record, KeyPair.new())
    assert verify(page).accepted  # a reader who knows no key is told so
    verdict = split.check(page)
    assert [one.claim for one in verdict.checks if not one.passed] == ["the coordinator signed the record"]


def test_a_swapped_action_file_is_rejected(split: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    own = split.deployed.study.actions
    swapped = Actions(own.matrix[::-1])
    assert verify(split.page, keys=split.keys, actions=own).accepted
    assert not verify(split.page, keys=split.keys, actions=swapped).accepted
    monkeypatch.setattr(recording, "MOST_NUMBERS", 10)  # as if there were too many to list
    page = report_page(split.history, None, split.deployed.keys, statement=split.told).encode()
    with pytest.raises(InvalidValue, match="--actions"):
        verify(page, keys=split.keys)
    assert verify(page, keys=split.keys, actions=own).accepted
    assert not verify(page, keys=split.keys, actions=swapped).accepted


def test_a_page_that_shows_other_numbers_than_its_record_is_rejected(split: Written) -> None:
    shown, changed = b"16 clients were asked", b"96 clients were asked"
    assert split.page.count(shown) == 1
    verdict = split.check(split.page.replace(shown, changed))
    assert [one.claim for one in verdict.checks if not one.passed] == ["the page shows the record"]


def test_simulated_noise_is_rejected(split: Written) -> None:
    verdict = split.check(split.forged(phases=_release(split.record, 0, simulated=True)))
    assert any("simulated noise" in check.why for check in verdict.checks)


def test_a_thousand_single_bytes_that_were_changed_are_all_noticed(split: Written) -> None:
    rng, page = random.Random(19), split.page
    begin = page.index(b'<pre id="record">') + len(b'<pre id="record">')
    end = page.index(b"</pre>", begin)
    for _ in range(1000):
        place, other = rng.randrange(begin, end), rng.randrange(1, 256)
        changed = page[:place] + bytes([page[place] ^ other]) + page[place + 1 :]
        assert not split.check(changed).accepted, place


def test_a_shuffler_states_what_it_saw_to_its_coordinator_alone(shuffler: Live) -> None:
    reply = shuffler.call("coordinator", "GET", "/v1/statement")
    told = msgspec.json.decode(reply.content, type=StatementReply)
    assert told.signed.key == str(SigningKey.of(shuffler.deployed.shuffler_keys).public)
    assert told.signed.fits(STATEMENT, told.text)
    assert not told.signed.fits(RECORD, told.text)
    (one,) = json.loads(told.text)["collections"]
    assert (one["state"], one["reports"], one["sums"]) == ("collecting", 0, [])
    for who, status in ((None, 401), ("operator", 403), ("client", 401)):
        assert shuffler.call(who, "GET", "/v1/statement").status_code == status
