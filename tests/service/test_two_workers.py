"""Two coordinator workers on one database: nobody is lost, nobody counts twice, nothing is released twice."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpbandits.errors import Refused
from dpbandits.protocol import Release, Schedule, decode
from dpbandits.service.sealing import KeyPair
from dpbandits.storage.sql import SqlStore

from ..storage.postgres import new_database, server  # noqa: TID252
from .helpers import Deployment, Member, small_study

COHORTS = (20, 30)
CLIENTS = 60


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return new_database(request.getfixturevalue("postgres"))


def _work(mine: Deployment, members: list[Member], accepted: list[tuple[int, str]]) -> None:
    """What one worker does for its callers, till the study has ended. Every report is sent twice."""
    for _ in range(400):
        mine.advance()
        if mine.coordinator.ended:
            return
        status = mine.run(mine.coordinator.operator.status)
        if status.state == "playing":
            with contextlib.suppress(Refused):  # the other worker has played it, and the next phase gathers
                mine.play()
        for member in members:
            task = mine.task(member)
            if task.state == "report" and not task.reported:
                body = mine.body(member)
                for _ in range(2):
                    mine.send(member, body)
                accepted.append((task.phase, member.pseudonym))
    raise AssertionError("the study does not end")


def test_two_workers_do_what_one_does(url: str) -> None:
    study = small_study("central", schedule=Schedule(cohorts=COHORTS, first_length=60, growth=8))
    keys = KeyPair.new()
    workers = [Deployment(study=study, mode=None, store=SqlStore(url), keys=keys) for _ in range(2)]
    members = workers[0].enrolled(CLIENTS)
    accepted, failures = list[tuple[int, str]](), list[BaseException]()

    def guarded(mine: Deployment) -> None:
        try:
            _work(mine, members[workers.index(mine) :: 2], accepted)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    _check(workers, accepted)
    for worker in workers:
        worker.close()


def _check(workers: list[Deployment], accepted: list[tuple[int, str]]) -> None:
    with workers[0].store.transaction() as transaction:
        releases = [decode(record.body, Release) for record in transaction.releases()]
        entries = [transaction.members(attempt.phase, attempt.number) for attempt in transaction.attempts()]
    assert [release.reports for release in releases] == list(COHORTS)
    assert sorted(len(names) for names in entries) == [0, *COHORTS]
    everybody = [name for names in entries for name in names]
    assert len(set(everybody)) == len(everybody)
    assert sorted(name for _, name in accepted) == sorted(everybody)
    assert workers[0].run(workers[0].context.course.state).ended
    assert workers[1].run(workers[1].context.course.state) == workers[0].run(workers[0].context.course.state)
