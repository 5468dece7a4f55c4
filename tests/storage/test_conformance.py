"""The conformance suite: tests of the rules of the store interface, run with every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpbandits.errors import InvalidValue, Refused
from dpbandits.storage import (
    Attempt,
    LedgerEntry,
    OrderRecord,
    PlanRecord,
    ProgressRecord,
    ReleaseRecord,
    Store,
    StoredReport,
    StudyRecord,
    open_store,
)

ATTEMPT = Attempt(phase=1, number=1, state="collecting", since=5.0, seconds=2.0)


def _entry(name: str, **changes: object) -> LedgerEntry:
    entry = LedgerEntry(client=f"client-{name}", phase=1, attempt=1, pseudonym=f"pseudonym-{name}")
    return replace(entry, **changes)  # type: ignore[arg-type]


def _report(name: str, digest: str = "d", sealed: bytes = b"\x00\xff", **changes: object) -> StoredReport:
    report = StoredReport(phase=1, attempt=1, pseudonym=f"pseudonym-{name}", digest=digest, sealed=sealed)
    return replace(report, **changes)  # type: ignore[arg-type]


def test_an_empty_store_is_empty(store: Store) -> None:
    with store.transaction() as transaction:
        assert transaction.study() is None
        assert transaction.plans() == transaction.releases() == transaction.attempts() == ()
        assert transaction.progress() == transaction.orders() == ()
        assert transaction.latest() is None
        assert transaction.latest(lock=True) is None
        assert transaction.client_of("nobody") is None
        assert transaction.entry_of(client="x") is None
        assert transaction.entry_of(pseudonym="x") is None
        assert transaction.members(1, 1) == ()
        assert transaction.batch(1, 1) is None
        assert list(transaction.reports(1, 1)) == []


def test_what_was_written_is_read(store: Store) -> None:
    study = StudyRecord(digest="s", body=b"{}\x00")
    plan = PlanRecord(phase=1, digest="p", body=b"plan")
    release = ReleaseRecord(phase=1, attempt=2, body=b"release")
    progress = [ProgressRecord(phase=phase, body=b"{}\x00") for phase in (2, 1)]
    orders = [OrderRecord(number=number, order="pause", since=0.5) for number in (2, 1)]
    with store.transaction() as transaction:
        transaction.begin_study(study)
        transaction.add_plan(plan)
        transaction.add_attempt(ATTEMPT)
        transaction.add_release(release)
        for record in progress:
            transaction.add_progress(record)
        transaction.keep_batch(1, 1, b"batch")
        for order in orders:
            transaction.add_order(order)
    with store.transaction() as transaction:
        assert transaction.study() == study
        assert transaction.plans() == (plan,)
        assert transaction.releases() == (release,)
        assert transaction.progress() == (progress[1], progress[0])
        assert transaction.attempts() == (ATTEMPT,)
        assert transaction.batch(1, 1) == b"batch"
        assert transaction.orders() == (orders[1], orders[0])


def test_nothing_of_a_failed_transaction_is_left(store: Store) -> None:
    def fail() -> None:
        with store.transaction() as transaction:
            transaction.begin_study(StudyRecord(digest="s", body=b""))
            transaction.add_codes(["code"])
            transaction.burn([_entry("a")])
            raise RuntimeError("in the middle")

    with pytest.raises(RuntimeError):
        fail()
    test_an_empty_store_is_empty(store)


def test_what_can_be_done_once_is_refused_a_second_time(store: Store) -> None:
    def once(transaction: object, name: str, *arguments: object) -> None:
        getattr(transaction, name)(*arguments)
        with pytest.raises(Refused):
            getattr(transaction, name)(*arguments)

    with store.transaction() as transaction:
        once(transaction, "begin_study", StudyRecord(digest="s", body=b""))
        once(transaction, "add_plan", PlanRecord(phase=1, digest="p", body=b""))
        once(transaction, "add_release", ReleaseRecord(phase=1, attempt=1, body=b""))
        once(transaction, "add_progress", ProgressRecord(phase=1, body=b""))
        once(transaction, "add_order", OrderRecord(number=1, order="pause", since=0.0))
        once(transaction, "add_attempt", ATTEMPT)
        once(transaction, "keep_batch", 1, 1, b"x")
        once(transaction, "burn", [_entry("a")])


def test_the_ledger_takes_a_client_once_and_a_pseudonym_once(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.burn([_entry("a"), _entry("b")])
    for again in (_entry("a", phase=2), _entry("a", pseudonym="new"), _entry("b", client="new")):
        with pytest.raises(Refused, match="already-asked"), store.transaction() as transaction:
            transaction.burn([_entry("c"), again])
    with pytest.raises(Refused), store.transaction() as transaction:
        transaction.burn([_entry("d"), _entry("d")])
    with store.transaction() as transaction:  # a refusal writes nothing, even if the transaction goes on
        with pytest.raises(Refused):
            transaction.burn([_entry("c"), _entry("a")])
        assert transaction.members(1, 1) == ("pseudonym-a", "pseudonym-b")
    with store.transaction() as transaction:
        assert transaction.members(1, 1) == ("pseudonym-a", "pseudonym-b")
        assert transaction.entry_of(client="client-a") == _entry("a")
        assert transaction.entry_of(pseudonym="pseudonym-b") == _entry("b")


def test_the_latest_attempt_is_of_the_last_phase(store: Store) -> None:
    second, third = replace(ATTEMPT, number=2), replace(ATTEMPT, phase=2, seconds=None)
    with store.transaction() as transaction:
        for attempt in (third, ATTEMPT, second):
            transaction.add_attempt(attempt)
        assert transaction.latest() == third
        assert transaction.attempts() == (ATTEMPT, second, third)


def test_an_attempt_goes_on_only_from_where_it_is(store: Store) -> None:
    timeless = replace(ATTEMPT, seconds=None)
    with store.transaction() as transaction:
        transaction.add_attempt(timeless)
        after = replace(timeless, state="released", joined=3, seconds=1.5)
        transaction.change_attempt(timeless, after)
        assert transaction.latest(lock=True) == after
        with pytest.raises(Refused, match="changed"):
            transaction.change_attempt(timeless, after)


def test_a_code_makes_one_client(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.add_codes(["one", "two", "one"])
        transaction.add_codes(["two"])
        client = transaction.enrol("one", "token")
        assert transaction.enrol("one", "token") == client == transaction.client_of("token")
        for code, token, reason in [
            ("one", "other", "already-enrolled"),
            ("two", "token", "already-enrolled"),
            ("three", "token", "unknown-credential"),
        ]:
            with pytest.raises(Refused, match=reason):
                transaction.enrol(code, token)
        assert transaction.enrol("two", "another") != client
        entry = LedgerEntry(client=client, phase=1, attempt=1, pseudonym="p")
        assert transaction.standing("token") == (client, None)
        transaction.burn([entry])
        assert transaction.standing("token") == (client, entry)
        assert transaction.standing("nobody") is None


def test_codes_expire_and_can_be_revoked_until_their_client_is_asked(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.add_codes(["one", "two", "three"], expires=1000.0)
        transaction.add_codes(["always"])
        assert transaction.enrol("one", "first", now=1000.0) == "one"
        assert transaction.enrol("always", "second", now=1e12) == "always"
        with pytest.raises(Refused) as refused:
            transaction.enrol("two", "third", now=1000.5)
        assert refused.value.reason == "code-expired"
        assert transaction.enrol("one", "first", now=1e12) == "one"  # enrolled in time
    with store.transaction() as transaction:
        transaction.burn([LedgerEntry(client="one", phase=1, attempt=1, pseudonym="a")])
        assert transaction.revoke_codes(["one", "always", "two", "unknown"]) == 2
        assert transaction.client_of("first") == "one"  # it has been asked
        assert transaction.client_of("second") is None
        with pytest.raises(Refused) as refused:
            transaction.enrol("two", "third")
        assert refused.value.reason == "unknown-credential"
        assert transaction.enrol("three", "fourth", now=1.0) == "three"


def test_a_batch_of_another_worker_is_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.transaction() as transaction:
        transaction.keep_batch(1, 1, b"theirs")
        looks = iter([None, b"theirs"])  # the other worker journals its batch after the first look
        monkeypatch.setattr(transaction, "batch", lambda _phase, _attempt: next(looks))
        assert transaction.kept_batch(1, 1, b"ours") == b"theirs"


def test_a_report_is_taken_once(store: Store) -> None:
    with store.transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
        transaction.burn([_entry(name) for name in "abc"])
    with store.transaction() as transaction:
        arriving = [
            _report("c", sealed=b"c", relayed=b"r"),
            _report("a"),
            _report("a"),
            _report("a", digest="other"),
            _report("x"),
            _report("b", phase=2),
        ]
        outcomes = transaction.accept(arriving)
        assert outcomes == ["accepted", "accepted", "repeated", "different", "unknown", "unknown"]
    with store.transaction() as transaction:
        assert transaction.accept([_report("a"), _report("c", digest="z")]) == ["repeated", "different"]
        assert [(r.pseudonym, r.sealed, r.relayed) for r in transaction.reports(1, 1)] == [
            ("pseudonym-a", b"\x00\xff", b""),
            ("pseudonym-c", b"c", b"r"),
        ]
        assert transaction.count_reports(1, 1) == 2
        transaction.change_attempt(ATTEMPT, replace(ATTEMPT, state="released"))
        transaction.drop_reports(1, 1)
    with store.transaction() as transaction:
        assert transaction.accept([_report("a"), _report("b")]) == ["repeated", "closed"]
        assert transaction.count_reports(1, 1) == 2
        assert list(transaction.reports(1, 1)) == []


def test_many_reports_are_read_in_the_order_of_their_pseudonyms(store: Store) -> None:
    names = [f"{number:04d}" for number in range(1203)]
    with store.transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
        transaction.burn([_entry(name) for name in names])
        assert transaction.accept([_report(name) for name in reversed(names)]) == ["accepted"] * len(names)
    with store.transaction() as transaction:
        assert [r.pseudonym for r in transaction.reports(1, 1)] == [f"pseudonym-{name}" for name in names]
        assert [r.pseudonym for r in transaction.reports(1, 1, after="pseudonym-1200")] == [
            "pseudonym-1201",
            "pseudonym-1202",
        ]
        transaction.drop_reports(1, 1)
    store.forget()


def test_a_deadline_is_never_further_off_than_the_state_lasts() -> None:
    assert ATTEMPT.remaining(now=6.0) == 1.0
    assert ATTEMPT.remaining(now=9.0) == -2.0
    assert ATTEMPT.remaining(now=-1e9) == 2.0  # the clock was set back
    assert replace(ATTEMPT, seconds=None).remaining(now=6.0) is None


@pytest.mark.parametrize("url", ["mysql://x", "sqlite://", "", "/some/file"])
def test_unknown_stores_are_refused(url: str) -> None:
    with pytest.raises(InvalidValue, match="storage"):
        open_store(url)
