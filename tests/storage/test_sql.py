"""Tests of what only SQL stores have: migrations, files on a disk, and several workers."""

from __future__ import annotations

import resource
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from dpbandits.errors import InvalidValue, Refused, StorageError
from dpbandits.storage import Attempt, LedgerEntry, StoredReport, StudyRecord
from dpbandits.storage._migrations import MIGRATIONS, NEWEST, migrate, version
from dpbandits.storage._sql import SqlStore, _engine
from dpbandits.storage._sqlite_fast import _FRESH

ATTEMPT = Attempt(phase=1, number=1, state="collecting")


def _version(url: str) -> int:
    engine = _engine(url)
    with engine.begin() as connection:
        found = version(connection)
    engine.dispose()
    return found


def test_the_first_schema_with_data_in_it_is_migrated(sql_url: str) -> None:
    engine = _engine(sql_url)
    migrate(engine, newest=1)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO attempts VALUES (1, 1, 'collecting', 1, 0, 0, NULL)"))
        connection.execute(text("INSERT INTO ledger VALUES ('client', 1, 1, 'name', 'digest')"))
        connection.execute(
            text("INSERT INTO reports (pseudonym, phase, attempt, sealed) VALUES ('name', 1, 1, :sealed)"),
            {"sealed": b"\x01\x02"},
        )
    engine.dispose()
    assert _version(sql_url) == 1
    store = SqlStore(sql_url)
    with store.transaction() as transaction:
        (report,) = transaction.reports(1, 1)
        assert (report.sealed, report.relayed) == (b"\x01\x02", b"")
        for _ in range(2):  # first while the report is stored, then after it was deleted
            entry = transaction.entry_of(pseudonym="name")
            assert entry is not None
            assert (entry.report, transaction.count_reports(1, 1)) == ("digest", 1)
            transaction.drop_reports(1, 1)
    store.close()
    assert _version(sql_url) == NEWEST


def test_taking_reports_in_does_not_go_through_the_whole_attempt(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    SqlStore(url).close()
    engine = _engine(url)
    query = _FRESH.format(", ".join("?" * 64))
    with engine.begin() as connection:
        plan = str(connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", (1, 1, *"x" * 64, 1, 1)).all())
    engine.dispose()
    assert "ledger_by_attempt" not in plan
    assert plan.count("(pseudonym=?)") == 2


def test_a_migration_that_fails_at_any_statement_leaves_the_schema_before_it(sql_url: str) -> None:
    steps = [(n, at) for n, parts in enumerate(MIGRATIONS, 1) for at in range(1, len(parts) + 2)]
    for number, at in steps:
        seen = 0

        def fail(step: str, number: int = number, at: int = at) -> None:
            nonlocal seen
            seen += step.startswith(f"migrate-{number}-") and not step.endswith("after-commit")
            if seen == at and step.startswith(f"migrate-{number}-"):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            SqlStore(sql_url, hook=fail)
        assert _version(sql_url) == number - 1
        if at == len(MIGRATIONS[number - 1]) + 1:
            engine = _engine(sql_url)
            migrate(engine, newest=number)
            engine.dispose()
    SqlStore(sql_url).close()


def test_a_killed_migration_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    engine = _engine(url)
    migrate(engine, newest=1)
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO codes (code) VALUES ('kept')"))
    engine.dispose()
    program = (
        "import os, signal, sys\n"
        "from dpbandits.storage._sql import SqlStore\n"
        "def hook(step):\n"
        "    if step == 'migrate-2-statement': os.kill(os.getpid(), signal.SIGKILL)\n"
        "SqlStore(sys.argv[1], hook=hook)\n"
    )
    died = subprocess.run([sys.executable, "-c", program, url], timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    assert _version(url) == 1
    store = SqlStore(url)
    with store.transaction() as transaction:
        assert transaction.enrol("kept", "token") == "kept"
    store.close()


def test_a_newer_schema_is_refused(sql_url: str) -> None:
    SqlStore(sql_url).close()
    engine = _engine(sql_url)
    with engine.begin() as connection:
        connection.execute(text(f"INSERT INTO schema_version VALUES ({NEWEST + 1})"))
    engine.dispose()
    with pytest.raises(InvalidValue, match="upgrade dpbandits"):
        SqlStore(sql_url)


def test_workers_that_open_a_new_store_at_once_migrate_it_once(sql_url: str) -> None:
    failures = list[BaseException]()

    def work() -> None:
        try:
            SqlStore(sql_url).close()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert _version(sql_url) == NEWEST


def test_two_workers_count_nobody_twice_and_lose_nothing(sql_url: str) -> None:
    """Two stores on one database accept the same clients and the same reports, some with other bytes."""
    stores = [SqlStore(sql_url) for _ in range(2)]
    with stores[0].transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
    burned, outcomes = [list[str]() for _ in stores], [list[str]() for _ in stores]

    def work(me: int) -> None:
        for number in range(40):
            entry = LedgerEntry(client=f"c{number}", phase=1, attempt=1, pseudonym=f"p{number}")
            try:
                with stores[me].transaction() as transaction:
                    transaction.burn([entry])
                burned[me].append(entry.client)
            except Refused:
                pass
            digest = f"d{me}" if number % 4 == 0 else "same"
            report = StoredReport(phase=1, attempt=1, pseudonym=f"p{number}", digest=digest, sealed=b"x")
            with stores[me].transaction() as transaction:
                outcomes[me] += transaction.accept([report])

    threads = [threading.Thread(target=work, args=(me,)) for me in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(burned[0] + burned[1]) == sorted(f"c{number}" for number in range(40))
    assert sorted(outcomes[0] + outcomes[1]).count("accepted") == 40
    for number, pair in enumerate(zip(*outcomes, strict=True)):
        assert sorted(pair) == ["accepted", "different" if number % 4 == 0 else "repeated"]
    with stores[0].transaction() as transaction:
        assert transaction.count_reports(1, 1) == len(list(transaction.reports(1, 1))) == 40
    for store in stores:
        store.close()


def test_closing_an_attempt_waits_for_reports_on_their_way_in(sql_url: str) -> None:
    """The worker that closes an attempt sees every report that was accepted before."""
    stores = [SqlStore(sql_url) for _ in range(2)]
    with stores[0].transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
        transaction.burn([LedgerEntry(client="c", phase=1, attempt=1, pseudonym="p")])
    decided, seen = threading.Event(), list[int]()

    def close() -> None:
        decided.wait(30)
        with stores[1].transaction() as transaction:
            attempt = transaction.latest(lock=True)
            assert attempt is not None
            seen.append(len(list(transaction.reports(1, 1))))
            transaction.change_attempt(attempt, replace(attempt, state="released"))

    closer = threading.Thread(target=close)
    closer.start()
    with stores[0].transaction() as transaction:
        report = StoredReport(phase=1, attempt=1, pseudonym="p", digest="d", sealed=b"x")
        assert transaction.accept([report]) == ["accepted"]
        decided.set()
        closer.join(0.3)
        assert closer.is_alive()
    closer.join(30)
    assert seen == [1]
    for store in stores:
        store.close()


def _in_files(marker: bytes, directory: Path) -> bool:
    return any(marker in file.read_bytes() for file in directory.iterdir())


def _take_one_in(store: SqlStore, marker: bytes) -> None:
    with store.transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
        transaction.burn([LedgerEntry(client="c", phase=1, attempt=1, pseudonym="p")])
        transaction.accept([StoredReport(phase=1, attempt=1, pseudonym="p", digest="d", sealed=marker)])


def test_sqlite_is_durable_and_overwrites_what_is_deleted(tmp_path: Path) -> None:
    store, marker = SqlStore(f"sqlite:///{tmp_path / 'store.sqlite'}"), b"a-report-to-be-forgotten"
    with store._engine.connect() as connection:
        pragmas = {name: connection.execute(text(f"PRAGMA {name}")).scalar() for name in _PRAGMAS}
    assert pragmas == _PRAGMAS
    _take_one_in(store, marker)
    assert _in_files(marker, tmp_path)
    with store.transaction() as transaction:
        transaction.drop_reports(1, 1)
    assert store.forget()
    assert not _in_files(marker, tmp_path)
    store.close()


@pytest.mark.parametrize("opened_again", [False, True])
def test_what_a_reader_keeps_from_being_overwritten_is_caught_up(
    opened_again: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    url, marker = f"sqlite:///{tmp_path / 'store.sqlite'}", b"a-report-to-be-forgotten"
    store = SqlStore(url)
    _take_one_in(store, marker)
    with closing(sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM reports").fetchone() == (1,)
        with store.transaction() as transaction:
            transaction.drop_reports(1, 1)
        assert not store.forget()
        assert [record.getMessage() for record in caplog.records] == ["log-not-emptied"]
        with store.transaction() as transaction:  # writes do not wait for the reader
            transaction.add_codes(["code"])
        if opened_again:
            store.close()
        assert _in_files(marker, tmp_path)
        reader.execute("ROLLBACK")
        if opened_again:
            store = SqlStore(url)
        else:
            with store.transaction() as transaction:
                transaction.latest()
        assert not _in_files(marker, tmp_path)
        with store._engine.connect() as connection:
            assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 30_000
    store.close()


def test_a_log_that_cannot_be_emptied_on_a_full_disk_is_one_clear_error(tmp_path: Path) -> None:
    store = SqlStore(f"sqlite:///{tmp_path / 'store.sqlite'}")
    with store.transaction() as transaction:
        transaction.add_codes([f"{number:064}" for number in range(100)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    try:
        with pytest.raises(StorageError, match="^storage: "):
            store.forget()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    store.forget()
    assert (tmp_path / "store.sqlite-wal").stat().st_size == 0
    store.close()


_PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1, "busy_timeout": 30_000}


def test_a_database_that_cannot_be_used_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot open the database"):
        SqlStore(f"sqlite:///{tmp_path / 'missing' / 'store.sqlite'}")
    path = tmp_path / "store.sqlite"
    store = SqlStore(f"sqlite:///{path}")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE study"))
    engine.dispose()
    with pytest.raises(StorageError, match="no such table"), store.transaction() as transaction:
        transaction.begin_study(StudyRecord(digest="secret-digest", body=b"secret-body"))
    store.close()
