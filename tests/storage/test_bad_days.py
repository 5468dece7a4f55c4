"""Stores on a bad day: a wide umask, a lock that is never released, a server that is away."""

from __future__ import annotations

import logging
import os
import socket
import stat
import time
from pathlib import Path

import pytest
from sqlalchemy import make_url

from dpbandits.errors import StorageError
from dpbandits.storage import Attempt, Transaction
from dpbandits.storage._sql import SqlStore

ATTEMPT = Attempt(phase=1, number=1, state="collecting")


def _modes(directory: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_only_the_owner_may_read_a_new_store(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        store = SqlStore(f"sqlite:///{tmp_path / 'study.sqlite'}")
        with store.transaction() as transaction:
            transaction.add_attempt(ATTEMPT)
    finally:
        os.umask(before)
    modes = _modes(tmp_path)
    store.close()
    assert modes == dict.fromkeys(("study.sqlite", "study.sqlite-wal", "study.sqlite-shm"), 0o600)


def test_an_existing_store_that_others_may_read_is_warned_about(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "study.sqlite"
    SqlStore(f"sqlite:///{path}").close()
    with caplog.at_level(logging.WARNING, "dpbandits.storage"):
        SqlStore(f"sqlite:///{path}").close()
        assert caplog.records == []
        path.chmod(0o640)
        SqlStore(f"sqlite:///{path}").close()
    (record,) = caplog.records
    assert record.message == "store-not-private"
    assert f"chmod 600 {path}" in record.__dict__["told"]


def _close(transaction: Transaction) -> None:
    found = transaction.latest(lock=True)
    assert found is not None


def test_a_row_lock_that_is_held_fails_in_seconds_and_names_the_remedy(postgres_url: str) -> None:
    """Without a time-out the worker waits as long as the lock is held."""
    holding, waiting = SqlStore(postgres_url), SqlStore(postgres_url)
    with holding.transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
    with holding.transaction() as transaction:
        _close(transaction)
        began = time.monotonic()
        held = pytest.raises(StorageError, match="lock timeout: another session holds a lock")
        with held, waiting.transaction() as other:
            _close(other)
        assert 4 < time.monotonic() - began < 15
    with waiting.transaction() as transaction:
        _close(transaction)
    holding.close()
    waiting.close()


def test_the_url_may_set_other_time_outs(postgres_url: str) -> None:
    url = make_url(postgres_url).update_query_dict({"options": "-c lock_timeout=200ms"})
    store = SqlStore(url.render_as_string(hide_password=False))
    with store._engine.connect() as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {name}").scalar_one()
            for name in ("lock_timeout", "statement_timeout")
        ]
    store.close()
    assert shown == ["200ms", "5min"]


def test_a_server_that_refuses_connections_is_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(StorageError, match="cannot open the database .*refused") as raised:
            SqlStore(f"postgresql://somebody:secret@127.0.0.1:{port}/study")
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel accepts the connection, but nobody replies to it."""
    monkeypatch.setattr("dpbandits.storage._sql._CONNECTING", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port, began = silent.getsockname()[1], time.monotonic()
        with pytest.raises(StorageError, match="cannot open the database .*timeout"):
            SqlStore(f"postgresql://somebody@127.0.0.1:{port}/study")
    assert time.monotonic() - began < 10


def test_a_missing_database_is_one_line(postgres: str) -> None:
    with pytest.raises(StorageError, match='database "no_such_study" does not exist') as raised:
        SqlStore(postgres.replace("/postgres?", "/no_such_study?"))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("tested", [True, False])
def test_a_connection_that_ended_while_it_was_idle_is_replaced(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, tested: bool
) -> None:
    """Without the test before its use, the first transaction after a restart of the server fails."""
    monkeypatch.setattr("dpbandits.storage._sql._IDLE", 0.0 if tested else 60.0)
    store, other = SqlStore(postgres_url), SqlStore(postgres_url)
    with store.transaction() as transaction:
        transaction.add_attempt(ATTEMPT)
    with other._engine.begin() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    if not tested:
        with pytest.raises(StorageError), store.transaction() as transaction:
            transaction.latest()
    with store.transaction() as transaction:
        assert transaction.latest() == ATTEMPT
    store.close()
    other.close()
