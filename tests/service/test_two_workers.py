"""Two coordinator workers on one database: no report is lost or counted twice, and no release is repeated."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpbandits.errors import Refused
from dpbandits.privacy import SecureNoise
from dpbandits.protocol import Plan, Release, Schedule, decode
from dpbandits.rounds import SteadyClock, StoreClock
from dpbandits.service.config import CoordinatorFile, read_study
from dpbandits.service.coordinator import Context, Watermark
from dpbandits.service.shared import Timing
from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import KeyPair, hashed, new_secret
from dpbandits.storage import LedgerEntry, StudyRecord
from dpbandits.storage._memory import _MemoryTransaction
from dpbandits.storage._sql import SqlStore

from ..storage.postgres import new_database  # noqa: TID252
from .helpers import Deployment, Member, small_study
from .processes import Site, free_port

COHORTS = (20, 30)
CLIENTS = 60


def _work(mine: Deployment, members: list[Member], accepted: list[tuple[int, str]]) -> None:
    """Run one worker for its callers until the study has ended. Every report is sent twice."""
    for _ in range(400):
        mine.advance()
        if mine.coordinator.ended:
            return
        status = mine.run(mine.coordinator.operator.status)
        if status.state == "playing":
            with contextlib.suppress(Refused):  # the other worker has already played this phase
                mine.play()
        for member in members:
            task = mine.task(member)
            if task.state == "report" and not task.reported:
                body = mine.body(member)
                for _ in range(2):
                    mine.send(member, body)
                accepted.append((task.phase, member.pseudonym))
    raise AssertionError("the study does not end")


def test_two_workers_do_what_one_does(sql_url: str, tmp_path: Path) -> None:
    """The workers share a watermark: neither mistakes the other's step for a restored backup."""
    study = small_study("central", schedule=Schedule(cohorts=COHORTS, first_length=60, growth=8))
    keys = KeyPair.new()
    workers = [
        Deployment(
            study=study,
            mode=None,
            store=SqlStore(sql_url),
            keys=keys,
            noise=SecureNoise(),
            watermark=Watermark(tmp_path / "progress", study.digest),
        )
        for _ in range(2)
    ]
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
    assert workers[0].coordinator.rounds.state.ended
    assert workers[1].coordinator.rounds.state == workers[0].coordinator.rounds.state


TICKETS = 80


def _collecting(file: CoordinatorFile, tickets: list[str]) -> tuple[Context, Plan]:
    """Advance a study until its first phase collects reports from the clients with these tickets."""
    coordinator = file.coordinator()
    coordinator.advance()
    names = [hashed(ticket) for ticket in tickets]
    with coordinator.store.transaction() as transaction:
        transaction.burn([LedgerEntry(client=n, phase=1, attempt=1, pseudonym=n) for n in names])
        begun = transaction.latest(lock=True)
        assert begun is not None
        state = {"state": "collecting", "joined": len(names), "since": time.time(), "seconds": 120.0}
        transaction.change_attempt(begun, replace(begun, **state))
        plan = coordinator.rounds.journal.plan(transaction, 1)
    coordinator.close()
    return coordinator.context, plan


@contextlib.contextmanager
def _two_processes(site: Site) -> Iterator[list[str]]:
    """Start two workers and yield their URLs when they are ready."""
    port = free_port()
    other = site.directory / "other.toml"
    other.write_text(site.study_file.read_text().replace(f"port = {site.port}", f"port = {port}"))
    second = [sys.executable, "-m", "dpbandits.cli", "serve", str(other)]
    urls = [site.url, f"https://127.0.0.1:{port}"]
    with site.running("one", site.coordinator()) as one, site.running("two", second) as two:
        for url in urls:
            site.wait_ready(url)
        yield urls
        assert [one.poll(), two.poll()] == [None, None]


def test_two_processes_on_postgresql_lose_nothing_and_count_nobody_twice(
    tmp_path: Path, postgres: str
) -> None:
    """Each client sends two different reports at once, each of them twice, to both workers."""
    tickets = [new_secret() for _ in range(TICKETS)]
    storage = new_database(postgres)
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(TICKETS, 10), storage=storage)
    file = read_study(site.study_file)
    context, plan = _collecting(file, tickets)

    def sealed(ticket: str) -> bytes:
        place = context.place(plan, 1, hashed(ticket))
        return context.keys.public.seal(bytes(plan.asked_mechanism.message.size), place, "report")

    with _two_processes(site) as urls, httpx.Client(verify=trusting(site.certificate), timeout=60) as http:

        def send(url: str, ticket: str, body: bytes) -> int:
            headers = {"Authorization": f"Bearer {ticket}"}
            path = "/v1/phases/1/attempts/1/reports"
            return http.post(f"{url}{path}", content=body, headers=headers).status_code

        with ThreadPoolExecutor(16) as pool:
            sent = [
                [
                    pool.submit(send, url, ticket, body)
                    for body in (sealed(ticket), sealed(ticket))
                    for url in urls
                ]
                for ticket in tickets
            ]
            statuses = [[one.result() for one in four] for four in sent]
        # One of the two bodies was accepted, and its copy at the other worker counts as a retry.
        assert all(four in ([204, 204, 409, 409], [409, 409, 204, 204]) for four in statuses)
        assert _first_release(site)["reports"] == TICKETS
        assert site.ask("GET", "/v1/status")["failed_attempts"] == 0


def _first_release(site: Site) -> dict[str, int]:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if phases := site.ask("GET", "/v1/results")["phases"]:
            return dict(phases[0]["release"])
        time.sleep(0.1)
    raise AssertionError("nothing was released")


class _Shifted:
    """The clock of a machine that is wrong by some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._machine = SteadyClock()

    def now(self) -> float:
        return self._machine.now() + self._seconds


@pytest.mark.parametrize("shift", [-3600.0, 40.0, 3600.0])
def test_workers_whose_clocks_differ_release_as_one_does(
    postgres_url: str, shift: float, caplog: pytest.LogCaptureFixture
) -> None:
    """With the clocks of their machines, one worker closes the attempt at once or waits for an hour."""
    study, keys, noise = small_study("local", share=0.5), KeyPair.new(), SecureNoise()
    timing = Timing(report_seconds=4, poll_seconds=1)

    def worker(seconds: float) -> Deployment:
        store = SqlStore(postgres_url)
        clock: Any = StoreClock(store, machine=_Shifted(seconds))
        return Deployment(
            study=study, mode=None, store=store, clock=clock, keys=keys, noise=noise, timing=timing
        )

    right, wrong = worker(0.0), worker(shift)
    for opening in (right, wrong):  # whichever worker opens the attempt, both close it at its deadline
        opening.advance()
        members = opening.join(_places(opening))
        opening.play()
        began, released = time.monotonic(), right.run(right.coordinator.operator.status).releases
        for member in members[: (len(members) * 3) // 4]:
            opening.send(member, opening.body(member))
        while right.run(right.coordinator.operator.status).releases == released:
            assert time.monotonic() - began < 10, "nothing was released"
            for each in (wrong, right):
                each.advance()
            time.sleep(0.05)
        assert time.monotonic() - began > 3.5, "the attempt was closed before its deadline"
    assert right.run(right.coordinator.operator.status).failed_attempts == 0
    assert abs(right.coordinator.rounds.clock_skew) < 0.5  # PostgreSQL runs on this machine
    assert abs(wrong.coordinator.rounds.clock_skew + shift) < 0.5
    assert [record.message for record in caplog.records].count("clock-skew") == 1
    for each in (right, wrong):
        each.close()


def test_a_worker_starts_although_another_one_begins_the_study_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Deployment(study=small_study("central"), mode=None)
    look, looks = _MemoryTransaction.study, list[bool]()

    def too_early(transaction: _MemoryTransaction) -> StudyRecord | None:
        looks.append(True)
        return look(transaction) if len(looks) > 2 else None  # before the first worker's commit

    monkeypatch.setattr(_MemoryTransaction, "study", too_early)
    second = Deployment(study=first.study, mode=None, store=first.store, keys=first.keys)
    assert second.context.name == first.context.name
    first.close()


def _places(worker: Deployment) -> int:
    latest = worker.coordinator.rounds.current()
    assert latest is not None
    return worker.coordinator.rounds.plan(latest.phase).cohort
