"""A store that is only read: it sees one state of the store, never writes, and holds up no writer."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbandits.errors import InvalidValue, StorageError
from dpbandits.storage import Attempt, PlanRecord, StudyRecord, open_store
from dpbandits.storage._migrations import migrate
from dpbandits.storage._sql import _engine

from .postgres import new_database

RECORD = StudyRecord(digest="0" * 64, body=b"{}")


@pytest.fixture(name="url", params=["sqlite", "postgresql"])
def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'a study.sqlite'}"
    return new_database(request.getfixturevalue("postgres"))


def test_a_reader_sees_one_state_and_a_writer_goes_on(url: str) -> None:
    writer = open_store(url)
    with writer.transaction() as transaction:
        transaction.begin_study(RECORD)
    reader = open_store(url, read_only=True)
    with reader.transaction() as reading:
        assert reading.study() == RECORD
        with writer.transaction() as transaction:
            transaction.add_attempt(Attempt(phase=1, number=1, state="gathering"))
        assert reading.latest() is None
    with reader.transaction() as reading:
        assert reading.latest() == Attempt(phase=1, number=1, state="gathering")
    reader.close()
    writer.close()


def test_a_reader_cannot_write(url: str) -> None:
    open_store(url).close()
    reader = open_store(url, read_only=True)
    with pytest.raises(StorageError, match="(?i)read-?only"), reader.transaction() as transaction:
        transaction.add_plan(PlanRecord(phase=1, digest="0" * 64, body=b"{}"))
    with reader.transaction() as transaction:
        assert transaction.plans() == ()
    reader.close()


def test_an_older_schema_is_refused_and_not_upgraded(url: str) -> None:
    engine = _engine(url)
    migrate(engine, newest=2)
    engine.dispose()
    for _ in range(2):
        with pytest.raises(InvalidValue, match="schema version 2, expected version"):
            open_store(url, read_only=True)
