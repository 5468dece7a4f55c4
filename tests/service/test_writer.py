"""The writer commits requests together, and survives failures of single ones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dpbandits.errors import Refused, StorageError
from dpbandits.service.shared import Writer
from dpbandits.storage import Attempt, LedgerEntry, MemoryStore, StoredReport, Transaction


class CountingStore(MemoryStore):
    """Counts commits, and fails on request."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.failures = list[Exception]()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with super().transaction() as transaction:
            yield transaction
            if self.failures:
                raise self.failures.pop()
        self.commits += 1


def _blocked(writer: Writer) -> threading.Event:
    """Queue jobs behind one that blocks."""
    go, began = threading.Event(), threading.Event()

    def wait(_transaction: Transaction) -> None:
        began.set()
        assert go.wait(30)

    writer.submit("wait", wait)
    assert began.wait(30)
    return go


def _prepared(store: MemoryStore, count: int) -> list[StoredReport]:
    names = [f"p{number}" for number in range(count)]
    with store.transaction() as transaction:
        transaction.add_attempt(Attempt(phase=1, number=1, state="collecting"))
        transaction.burn([LedgerEntry(client=name, phase=1, attempt=1, pseudonym=name) for name in names])
    return [StoredReport(phase=1, attempt=1, pseudonym=name, digest="d", sealed=b"x") for name in names]


def test_what_waits_is_committed_together_and_answered_after_the_commit() -> None:
    store, steps = CountingStore(), list[str]()
    writer = Writer(store, hook=steps.append)
    reports = _prepared(store, 50)
    go = _blocked(writer)
    futures = [writer.submit("report", report) for report in [*reports, reports[0]]]
    other = writer.submit("codes", lambda t: t.add_codes(["code"]))
    before = store.commits
    assert not any(future.done() for future in futures)
    go.set()
    assert [future.result(30) for future in futures] == ["accepted"] * 50 + ["repeated"]
    assert other.result(30) is None
    assert store.commits == before + 2  # one for the job that blocked, one for all others
    assert steps[-4:] == [
        "report-before-commit",
        "codes-before-commit",
        "report-after-commit",
        "codes-after-commit",
    ]
    writer.close()


def test_a_failing_request_does_not_fail_others() -> None:
    store = CountingStore()
    writer = Writer(store)
    go = _blocked(writer)

    def wrong(transaction: Transaction) -> None:
        transaction.add_codes(["never"])
        raise ZeroDivisionError

    def refused(_transaction: Transaction) -> None:
        raise Refused("no", "because")

    bad = writer.submit("bad", wrong)
    no = writer.submit("no", refused)
    good = writer.submit("good", lambda t: t.enrol("never", "token"))
    fine = writer.submit("fine", lambda t: t.add_codes(["always"]))
    go.set()
    with pytest.raises(ZeroDivisionError):
        bad.result(30)
    for future, reason in ((no, "no"), (good, "unknown-credential")):
        with pytest.raises(Refused, match=reason):
            future.result(30)
    fine.result(30)
    assert writer.run("read", lambda t: t.enrol("always", "token")) == "always"
    writer.close()


def test_a_refusal_alone_undoes_what_was_written() -> None:
    writer = Writer(MemoryStore())

    def half(transaction: Transaction) -> None:
        transaction.add_codes(["half"])
        raise Refused("no", "because")

    with pytest.raises(Refused):
        writer.run("half", half)
    with pytest.raises(Refused, match="unknown-credential"):
        writer.run("enrol", lambda t: t.enrol("half", "token"))
    writer.close()


def test_a_full_disk_is_reported_and_survived() -> None:
    store = CountingStore()
    writer = Writer(store)
    store.failures = [StorageError("full")] * 3
    with pytest.raises(StorageError, match="full"):
        writer.run("codes", lambda t: t.add_codes(["code"]))
    store.failures = []
    writer.run("codes", lambda t: t.add_codes(["code"]))
    assert writer.run("enrol", lambda t: t.enrol("code", "token")) == "code"
    writer.close()


def test_a_conflict_with_another_worker_is_retried_but_not_forever() -> None:
    store = CountingStore()
    writer = Writer(store)
    store.failures = [Refused("changed", "by another")] * 3
    assert writer.run("x", lambda _t: "done") == "done"
    store.failures = [Refused("changed", "by another")] * 50
    with pytest.raises(StorageError, match="other workers keep changing"):
        writer.run("x", lambda _t: "done")
    store.failures = []
    writer.close()


def test_a_caller_that_has_gone_away_does_no_harm() -> None:
    writer = Writer(MemoryStore())
    go = _blocked(writer)
    gone = writer.submit("gone", lambda t: t.add_codes(["gone"]))
    assert gone.cancel()
    go.set()
    assert writer.run("x", lambda _t: 1) == 1
    with pytest.raises(Refused, match="unknown-credential"):
        writer.run("enrol", lambda t: t.enrol("gone", "token"))
    writer.close()
    assert not writer._thread.is_alive()


def test_refused_jobs_and_reads_are_no_changes() -> None:
    store = CountingStore()
    writer = Writer(store)

    def refuse(_transaction: Transaction) -> None:
        raise Refused("unknown-credential", "no such client")

    for alone in (False, True):
        with pytest.raises(Refused):
            writer.run("join", refuse, alone=alone)
    writer.run("read", lambda t: t.latest())
    go = _blocked(writer)  # two refusals in one group, behind a job that is a change
    refused = [writer.submit("join", refuse) for _ in range(2)]
    go.set()
    assert all(isinstance(one.exception(30), Refused) for one in refused)
    assert writer.changes == 1
    writer.run("codes", lambda t: t.add_codes(["code"]))
    assert writer.changes == 2
    store.failures = [StorageError("storage: gone")]
    with pytest.raises(StorageError):  # it may have been committed
        writer.run("codes", lambda t: t.add_codes(["another"]))
    assert writer.changes == 3
    writer.close()
