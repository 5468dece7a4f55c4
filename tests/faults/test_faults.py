"""A few runs under faults, the runs that once failed, and checks that the checker detects injected errors."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from dpbandits.storage import StoredReport, Transaction
from dpbandits.storage._sql import SqlStore
from dpbandits.storage._sql_transaction import SqlTransaction
from tests.service.helpers import MODELS

from .faults import Case, Fault, draw_case
from .shrinking import shrink
from .world import World, examine, play, run_case

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))


@pytest.mark.parametrize("number", range(len(MODELS)))
def test_a_study_survives_faults(number: int) -> None:
    assert run_case(draw_case(0, number)).problems == ()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_once_failed_does_not_any_more(path: Path) -> None:
    assert run_case(msgspec.json.decode(path.read_bytes(), type=Case)).problems == ()


def _quiet(number: int) -> Case:
    return replace(draw_case(0, number), faults=())


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> World:
    return play(_quiet(4), tmp_path_factory.mktemp("split"))


_COLUMNS = "state, joined, played, since, seconds"
AGAIN = f"INSERT INTO attempts SELECT phase, 9, {_COLUMNS} FROM attempts WHERE phase = 1"
FEWER = "UPDATE releases SET body = json_set(CAST(body AS TEXT), '$.reports', 2) WHERE phase = 1"
OTHER = "UPDATE releases SET body = (SELECT body FROM releases WHERE phase = 2) WHERE phase = 1"
PLANTED = [
    ("shuffler", "UPDATE ledger SET report = NULL WHERE rowid = 1", "is lost"),
    ("shuffler", "UPDATE ledger SET report = 'another' WHERE rowid = 1", "is lost"),
    ("coordinator", "UPDATE attempts SET state = 'failed' WHERE phase = 1", "failed with"),
    ("coordinator", "UPDATE attempts SET state = 'collecting' WHERE phase = 2", "at the end"),
    ("coordinator", AGAIN, "released twice"),
    ("coordinator", FEWER, "is released with 2"),
    ("coordinator", OTHER, "was changed"),
    ("coordinator", "DELETE FROM releases WHERE phase = 2", "has not ended"),
    ("coordinator", "UPDATE ledger SET pseudonym = 'x' WHERE rowid = 1", "no client"),
]


@pytest.mark.parametrize(("party", "change", "told"), PLANTED)
def test_the_checker_finds(party: str, change: str, told: str, split: World) -> None:
    assert examine(split) == []
    path = split.site.database(party)
    before = path.read_bytes()
    try:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(change)
        assert any(told in problem for problem in examine(split)), examine(split)
    finally:
        path.with_name(path.name + "-wal").unlink(missing_ok=True)
        path.with_name(path.name + "-shm").unlink(missing_ok=True)
        path.write_bytes(before)


def test_a_store_that_loses_what_it_has_acknowledged_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    accept, taken = SqlTransaction.accept, list[int]()

    def noted(transaction: SqlTransaction, reports: Sequence[StoredReport]) -> list[str]:
        taken.append(len(reports))
        return accept(transaction, reports)

    @contextmanager
    def forgetful(store: SqlStore) -> Iterator[Transaction]:
        with store._engine.connect() as connection:
            before = len(taken)
            yield SqlTransaction(connection)
            if (before, len(taken)) != (1, 2):  # commit everything except the second batch of reports
                connection.commit()

    monkeypatch.setattr(SqlTransaction, "accept", noted)
    monkeypatch.setattr(SqlStore, "transaction", forgetful)
    problems = run_case(_quiet(1)).problems
    assert any("is lost" in problem for problem in problems), problems


def test_a_failing_run_is_shortened_to_what_makes_it_fail() -> None:
    case = replace(draw_case(0, 0), faults=tuple(Fault(kind="lose", at=number) for number in range(40)))
    found = shrink(case, lambda one: {3, 31} <= {fault.at for fault in one.faults})
    assert [fault.at for fault in found.faults] == [3, 31]
