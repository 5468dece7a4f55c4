"""Terms: one digest covers all that a client consents to, and plans are checked against them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import TRUST_MODELS, PrivacyRequest
from dpbandits.protocol import Plan, Schedule, Study, ask
from dpbandits.service.client import Consent
from dpbandits.service.coordinator import Context, Coordinator
from dpbandits.service.wire import (
    KeyPair,
    PartyTerms,
    Pins,
    PublicKey,
    SignedTerms,
    SigningKey,
    Terms,
    VerifyKey,
    new_run,
    proved_delta,
    read_terms,
    terms_of,
)
from dpbandits.storage import MemoryStore

from .helpers import Deployment, small_study

ALL = Consent(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)
KEYS = {name: str(KeyPair.new().public) for name in ("coordinator", "shuffler", "another")}
OWN = PartyTerms(url="https://coordinator.test", key=KEYS["coordinator"])
SHUFFLER = PartyTerms(url="https://shuffler.test", key=KEYS["shuffler"])


def agreed(study: Study, mode: str = "split", run: str = "0" * 32) -> tuple[Terms, SignedTerms, Plan]:
    """Return the terms of a study, their text, and the first plan under them."""
    shuffled = study.privacy.trust == "shuffle"
    terms = terms_of(
        study,
        run=run,
        coordinator=OWN,
        shuffler=SHUFFLER if shuffled else None,
        mode=mode if shuffled else "",
    )
    signed = SignedTerms.of(terms)
    return terms, signed, ask(replace(study, terms=signed.digest).begin())


def test_every_part_of_the_terms_is_in_the_digest() -> None:
    terms, signed, _ = agreed(small_study("shuffle"))
    others: dict[str, Any] = {
        "run": "1" * 32, "study": "2" * 64, "mode": "trusted", "epsilon": 19.0, "delta": 1e-4,
        "minimum_reports": 5, "largest_cohort": 11, "silent_share": 0.5, "mechanisms": ("shuffled-bits",),
        "noises": ("binomial",), "sum_bits": 40, "coordinator": SHUFFLER, "shuffler": OWN,
    }  # fmt: skip
    digests = {signed.digest}
    for name, value in others.items():
        digests.add(SignedTerms.of(msgspec.structs.replace(terms, **{name: value})).digest)
    assert len(digests) == 1 + len(others)
    assert set(others) | {"version", "trust"} == set(Terms.__struct_fields__)


def test_two_runs_and_two_modes_of_a_study_have_other_plans() -> None:
    study = small_study("shuffle")
    plans = [
        agreed(study, mode, run)[2]
        for mode, run in (("split", "0" * 32), ("trusted", "0" * 32), ("split", new_run()))
    ]
    assert len({plan.digest for plan in plans}) == 3
    assert len({plan.mechanism for plan in plans}) == 1


@pytest.mark.parametrize("trust", TRUST_MODELS)
def test_a_plan_is_accepted_only_within_terms_and_consent(trust: str) -> None:
    terms, signed, plan = agreed(small_study(trust))
    ALL.check_terms(terms)
    ALL.check(plan, terms, signed)
    others = tuple(other for other in TRUST_MODELS if other != trust)
    with pytest.raises(Refused, match="no-consent"):
        replace(ALL, trusts=others).check_terms(terms)
    with pytest.raises(Refused, match="asks no client"):
        ALL.check(replace(plan, mechanism=None), terms, signed)
    with pytest.raises(Refused, match="other terms"):
        ALL.check(replace(plan, study="0" * 64), terms, signed)
    if trust != "none":
        with pytest.raises(Refused, match=r"privacy: got .*, expected \(1, .*\)-DP or stronger"):
            replace(ALL, epsilon=1).check_terms(terms)
        with pytest.raises(Refused, match="does not give"):
            replace(ALL, epsilon=1).check(plan, terms, signed)
        strict = msgspec.structs.replace(terms, epsilon=1.0)
        with pytest.raises(Refused, match="does not give"):
            ALL.check(plan, strict, signed)


def test_a_plan_outside_each_limit_of_the_terms_is_refused() -> None:
    terms, signed, plan = agreed(small_study("shuffle", share=0.5))
    ALL.check(plan, terms, signed)
    for name, value, match in (
        ("largest_cohort", plan.cohort - 1, "cohort"),
        ("minimum_reports", plan.cohort, "fewer"),
        ("silent_share", 0.5, "must suffice even if a share 0.5 "),
        ("noises", (), "mechanism or noise"),
        ("mechanisms", (), "mechanism or noise"),
        ("sum_bits", 2, "more than 2 bits"),
    ):
        changed = msgspec.structs.replace(terms, **{name: value})
        with pytest.raises(Refused, match=match):
            changed.check(plan, signed.digest)


def test_consent_can_demand_mode_cohorts_and_a_silent_share() -> None:
    study = small_study(
        "shuffle",
        privacy=PrivacyRequest(trust="shuffle", epsilon=20, delta=1e-3, minimum_share=0.5, silent_share=0.25),
    )
    terms, _, _ = agreed(study, "trusted")
    for accepted in (
        {},
        {"modes": ("trusted",)},
        {"minimum_cohort": 3},
        {"largest_cohort": 10},
        {"least_silent_share": 0.25},
    ):
        replace(ALL, **accepted).check_terms(terms)
    for refused, match in (
        ({"modes": ("split",)}, "mode: got trusted, expected one of split"),
        ({"minimum_cohort": 4}, "minimum_reports: got 3, expected at least 4"),
        ({"largest_cohort": 9}, "largest_cohort: got 10, expected at most 9"),
        ({"least_silent_share": 0.3}, "silent_share: got 0.25, expected at least 0.3"),
    ):
        with pytest.raises(Refused, match=match):
            replace(ALL, **refused).check_terms(terms)


def test_pins_decide_where_reports_go() -> None:
    terms, signed, _ = agreed(small_study("shuffle"))
    key = SigningKey.new()
    good = (
        Pins(terms=signed.digest),
        Pins(shuffler_url="https://shuffler.test/", shuffler_key=PublicKey.parse(KEYS["shuffler"])),
    )
    for pins in good:
        pins.check(terms, signed)
        pins.require_path(terms)
    Pins(operator_key=key.public).check(terms, signed.sign(key))
    Pins(operator_key=key.public).require_path(terms)
    for pins in (
        Pins(terms="0" * 64),
        Pins(operator_key=key.public),
        Pins(operator_key=SigningKey.new().public),
        Pins(shuffler_key=PublicKey.parse(KEYS["another"])),
        Pins(shuffler_url="https://elsewhere.test"),
    ):
        with pytest.raises(Refused, match="other-terms"):
            pins.check(terms, signed)
    with pytest.raises(Refused, match="other-terms"):  # signed with a different key
        Pins(operator_key=SigningKey.new().public).check(terms, signed.sign(key))
    for pins in (Pins(), Pins(shuffler_key=PublicKey.parse(KEYS["shuffler"]))):
        with pytest.raises(Refused, match="not-pinned"):
            pins.require_path(terms)
    Pins().require_path(agreed(small_study("local"))[0])


@pytest.mark.parametrize("trust", ["central", "local"])
def test_a_pinned_shuffler_refuses_terms_without_one(trust: str) -> None:
    terms, signed, _ = agreed(small_study(trust))
    Pins(terms=signed.digest).check(terms, signed)
    for pins in (
        Pins(shuffler_key=PublicKey.parse(KEYS["shuffler"])),
        Pins(shuffler_url="https://shuffler.test"),
        Pins(terms=signed.digest, shuffler_url="https://shuffler.test"),
    ):
        with pytest.raises(Refused, match="other-terms: the terms name no shuffler"):
            pins.check(terms, signed)


def test_a_signature_is_of_one_text_and_one_key() -> None:
    key = SigningKey.new()
    _, signed, _ = agreed(small_study("local"))
    good = signed.sign(key)
    assert good.signed_by(VerifyKey.parse(str(key.public)))
    for changed in (
        msgspec.structs.replace(good, terms=good.terms.replace('"delta":0.001', '"delta":0.01')),
        msgspec.structs.replace(good, signature=f"{int(good.signature, 16) ^ 1:0128x}"),
        msgspec.structs.replace(good, signature=""),
        msgspec.structs.replace(good, signature="no digits"),
    ):
        assert changed != good
        assert not changed.signed_by(key.public)


@pytest.mark.parametrize(
    "change",
    [
        {"shuffler": None},
        {"mode": ""},
        {"mode": "open"},
        {"trust": "local"},
        {"trust": "nobody"},
        {"epsilon": 0},
        {"epsilon": 1e999},
        {"delta": 1},
        {"delta": -1},
        {"minimum_reports": 0},
        {"largest_cohort": 1},
        {"largest_cohort": 2**41},
        {"silent_share": 1},
        {"sum_bits": 64},
        {"run": "short"},
        {"version": "dpbandits terms v2"},
        {"more": 1},
        {"coordinator": {"url": "x", "key": "0"}},
        {"mechanisms": ["x"] * 65},
    ],
    ids=str,
)
def test_terms_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    terms, _, _ = agreed(small_study("shuffle"))
    built = msgspec.to_builtins(terms)
    text = msgspec.json.encode({**built, **change}).decode()
    with pytest.raises(Refused, match="unreadable"):
        SignedTerms(terms=text.replace("Infinity", "1e999")).opened()
    with pytest.raises(Refused, match="unreadable"):
        SignedTerms(terms="[" * 5000).opened()


@pytest.mark.parametrize("content", [b"", b'{"terms":"\xff"}', b'{"terms":"{}"}', b"[" * 100_000])
def test_a_file_without_valid_terms_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "terms.json").write_bytes(content)
    with pytest.raises(InvalidValue, match="a file that `dpbandits terms` wrote"):
        read_terms(tmp_path / "terms.json")


def test_an_error_about_terms_quotes_little_of_their_text() -> None:
    with pytest.raises(Refused, match="not valid terms") as refused:
        SignedTerms(terms='{"\\u001b[2J' + "x" * 10_000 + '":1}').opened()
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 300


def test_what_the_accountant_cannot_prove_is_not_believed() -> None:
    class Broken:
        def __init__(self, answer: object) -> None:
            self.answer = answer

        @property
        def event(self) -> Broken:
            return self

        def delta(self, _epsilon: float) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    for answer in (
        float("nan"),
        OverflowError(),
        ZeroDivisionError(),
        -1.0,
        2.0,
        MemoryError(),
        RecursionError(),
    ):
        assert proved_delta(Broken(answer), 1.0) == 1.0  # type: ignore[arg-type]
    assert proved_delta(Broken(0.25), 1.0) == 0.25  # type: ignore[arg-type]


def test_a_store_keeps_its_terms_and_other_settings_are_refused() -> None:
    deployed = Deployment(study=small_study("shuffle"), mode="split")
    first = deployed.context.signed
    assert first is not None
    deployed.coordinator.writer.close()
    deployed.start()
    assert deployed.context.signed == first
    key = SigningKey.new()
    given = replace(deployed.context, study=deployed.study.without_terms, signed=first.sign(key))
    with deployed.store.transaction() as transaction:
        settled = given.settled(transaction)
        assert settled.signed is not None
        assert settled.signed.signed_by(key.public)
        other = replace(given, signed=SignedTerms.of(given.terms_for(new_run())))
        with pytest.raises(InvalidValue, match="as the store has"):
            other.settled(transaction)
        moved = replace(given, url="https://elsewhere.test")
        with pytest.raises(InvalidValue, match="coordinator"):
            moved.settled(transaction)
    deployed.close()


def test_a_schedule_is_planned_once_and_kept_in_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpbandits.service.coordinator import _context as module

    planned = list[int]()
    original = module.budgeted

    def counted(study: Study, participants: int) -> Any:
        planned.append(participants)
        return original(study, participants)

    monkeypatch.setattr(module, "budgeted", counted)
    store = MemoryStore()
    given = Context(
        study=small_study("central", schedule=Schedule(cohorts=(40,)), bounded_rewards=False),
        participants=40,
        keys=KeyPair.new(),
    )
    first = Coordinator(given, store)
    cohorts = first.context.study.schedule.cohorts
    assert sum(cohorts or ()) == 40
    assert first.context.terms.largest_cohort == max(cohorts or ())
    first.advance()
    first.writer.close()
    again = Coordinator(given, store)
    assert again.context.study == first.context.study
    assert planned == [40]
    again.close()
