"""Whole studies over a grid in one process: what they learn, lost messages, and a crash at every step."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.federation import SiteAnswer
from dpbandits.federation._driver import shares
from dpbandits.federation._messages import packed, read_reply
from dpbandits.protocol import Plan, Release, decode
from dpbandits.rounds import give_order
from dpbandits.storage import MemoryStore, Store

from .helpers import TRUSTS, Federation, alone, study_of
from .population import Population


def attempts(store: Store) -> list[tuple[int, int, str]]:
    with store.transaction() as transaction:
        return [(one.phase, one.number, one.state) for one in transaction.attempts()]


def releases(store: Store) -> list[Release]:
    with store.transaction() as transaction:
        return [decode(one.body, Release) for one in transaction.releases()]


@pytest.mark.parametrize("trust", TRUSTS)
def test_a_federation_learns_what_the_protocol_alone_would(trust: str, tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of(trust)), MemoryStore()
    state = federation.driver(store).run()
    expected, wanted = alone(federation, {phase: federation.members(phase) for phase in (1, 2)})
    assert state.active_actions.tolist() == expected.active_actions.tolist()
    assert len(state.active_actions) < federation.study.actions.count
    for found, alone_found in zip(releases(store), wanted, strict=True):
        assert found.reports == alone_found.reports == 40
        assert np.allclose(found.means, alone_found.means, rtol=0, atol=1e-9)
    used = [user for phase in (1, 2) for users in federation.members(phase).values() for user in users]
    assert len(used) == len(set(used)) == 80
    with store.transaction() as transaction:  # the answers are gone
        assert not list(transaction.reports(1, 1)) + list(transaction.reports(2, 1))


def test_missing_sites_count_against_the_minimum_and_fresh_users_are_asked(tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("shuffle", minimum_share=0.8), count=3), MemoryStore()
    site = federation.grid.members["site-2"]

    def deaf(request: bytes) -> bytes:  # in the first attempt it computes, and its answer is lost
        reply = site(request)
        lost = isinstance(read_reply(reply), SiteAnswer) and len(attempts(store)) == 1
        federation.grid.silent = {"site-2"} if lost else set()
        return reply

    federation.grid.members = {**federation.grid.members, "site-2": deaf}
    federation.driver(store).run()
    assert attempts(store)[:2] == [(1, 1, "failed"), (1, 2, "released")]
    everybody = [set(users) for pair in ((1, 1), (1, 2)) for users in federation.members(*pair).values()]
    assert len(set().union(*everybody)) == sum(map(len, everybody))


def test_a_site_that_is_gone_is_left_out_if_the_minimum_allows(tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("central"), count=3), MemoryStore()
    federation.grid.away = {"site-1"}
    assert federation.driver(store).run().ended
    assert [one.reports for one in releases(store)] == [40, 40]
    assert federation.members(1)[1] == []


def test_a_site_that_leaves_is_waited_for_once(tmp_path: Path) -> None:
    federation, store = (
        Federation(tmp_path, study_of("central", cohorts=(30, 30, 30)), count=3),
        MemoryStore(),
    )
    driver, waits = federation.driver(store), list[float]()
    began = driver._meet

    def meet(plan: Plan) -> None:
        federation.grid.away = {1: set(), 2: {"site-1"}, 3: {"site-1"}}[plan.phase]
        before = driver._now()
        began(plan)
        waits.append(driver._now() - before)

    driver._meet = meet  # type: ignore[method-assign]
    driver.run()
    assert [one.reports for one in releases(store)] == [30, 30, 30]
    assert [len(federation.members(phase)[1]) for phase in (1, 2, 3)] == [10, 0, 0]
    assert waits[1] >= 5 > max(waits[0], waits[2])


def test_a_study_stops_with_a_clear_message_if_too_few_users_are_left(tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("central"), users=25), MemoryStore()
    federation.grid.away = {"site-1"}
    with pytest.raises(InvalidValue, match="sites: got 1 that respond, with 0 users.* at least 20 .*phase 2"):
        federation.driver(store).run()
    federation.grid.away = set()  # the site is back, and the study goes on
    assert federation.driver(store).run().ended
    assert [one.reports for one in releases(store)] == [25, 25]


def test_a_site_that_never_answers_does_not_use_up_the_others_for_ever(tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("central", minimum_share=0.9)), MemoryStore()
    site = federation.grid.members["site-1"]

    def broken(request: bytes) -> bytes:
        reply = site(request)
        return b"nonsense" if isinstance(read_reply(reply), SiteAnswer) else reply

    federation.grid.members = {**federation.grid.members, "site-1": broken}
    with pytest.raises(InvalidValue, match="phase 1: got 3 failed attempts, expected one with 36 reports"):
        federation.driver(store).run()
    assert releases(store) == []


def test_answers_of_liars_are_missing_reports(tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("shuffle"), count=3), MemoryStore()
    honest, other = federation.grid.members["site-0"], federation.grid.members["site-1"]

    def liar(request: bytes) -> bytes:  # changes a bit of the sealed report
        reply = read_reply(honest(request))
        if not isinstance(reply, SiteAnswer):
            return packed(reply)
        return packed(structs.replace(reply, sealed=b"\1" + reply.sealed[1:]))

    federation.grid.members = {"site-0": liar, "site-1": other, "site-2": other}  # one repeats another's
    with pytest.raises(InvalidValue, match="3 failed attempts"):  # 14 of 40 reports, where 20 are needed
        federation.driver(store).run()
    assert releases(store) == []


def test_the_operator_pauses_and_closes_a_study(tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("central")), MemoryStore()
    driver = federation.driver(store)

    def order(name: str) -> None:
        with store.transaction() as transaction:
            give_order(transaction, name, 0.0)

    def sleep(_seconds: float) -> None:  # called while the study is paused
        assert federation.grid.asked == []
        order("resume")

    driver.rounds.settle()
    order("pause")
    driver._sleep = sleep
    assert driver.run().ended
    other = MemoryStore()
    driver = federation.driver(other)
    driver.rounds.settle()
    with other.transaction() as transaction:
        give_order(transaction, "close", 0.0)
    assert not driver.run().ended
    assert attempts(other) == [(1, 1, "failed")]


@pytest.mark.parametrize("met", [False, True])
def test_a_study_may_be_paused_before_any_site_has_joined(met: bool, tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("central")), MemoryStore()
    driver, given = federation.driver(store), list[str]()
    meet = driver._meet

    def order(name: str) -> None:
        given.append(name)
        with store.transaction() as transaction:
            give_order(transaction, name, 0.0)

    def meet_and_pause(plan: Plan) -> None:
        meet(plan)
        if not given:
            order("pause")

    driver._sleep = lambda _seconds: order("resume")  # called while the study is paused
    if met:
        driver._meet = meet_and_pause  # type: ignore[method-assign]
    else:
        order("pause")
    assert driver.run().ended
    assert given == ["pause", "resume"]


def test_a_data_source_that_is_away_for_a_while_costs_nothing(tmp_path: Path) -> None:
    class Flaky(Population):
        def averages(self, users: Sequence[str], plan: Plan) -> FloatArray:
            calls.append(users)
            if len(calls) < 3:
                raise ConnectionError("the database is away")
            return super().averages(users, plan)

    federation, store, calls = Federation(tmp_path, study_of("central", cohorts=(40,))), MemoryStore(), []
    site = federation.site(0, source=Flaky(federation.study.actions, 0, 100))
    federation.grid.members = {**federation.grid.members, "site-0": site.reply}
    federation.driver(store).run()
    assert calls[0] == calls[1] == calls[2]
    assert [one.reports for one in releases(store)] == [40]


STEPS = (
    "begin",
    "ask",
    "join",
    "gathered",
    "rounds",
    "played",
    "opened",
    "report",
    "end-wait",
    "release",
    "learn",
)


class KilledError(Exception):
    pass


@pytest.mark.parametrize("step", [f"{name}-{when}-commit" for name in STEPS for when in ("before", "after")])
def test_a_driver_that_dies_at_any_step_releases_nothing_twice(step: str, tmp_path: Path) -> None:
    federation, store = Federation(tmp_path, study_of("central", cohorts=(40,))), MemoryStore()

    def die(here: str) -> None:
        if here == step:
            raise KilledError

    with pytest.raises(KilledError):
        federation.driver(store, hook=die).run()
    before = releases(store)
    state = federation.driver(store).run()
    assert releases(store)[: len(before)] == before
    assert attempts(store) == [(1, 1, "released"), (2, 1, "done")]
    assert [one.reports for one in releases(store)] == [40]
    assert federation.driver(store).rounds.state == state
    assert sum(map(len, federation.members(1).values())) == 40


def test_shares_are_in_proportion_and_add_up() -> None:
    assert shares(10, {"a": 30, "b": 10}) == {"a": 8, "b": 2}
    assert shares(100, {"a": 30, "b": 10, "c": 0}) == {"a": 30, "b": 10}
    rng = np.random.default_rng(1)
    for _ in range(300):
        unused = {str(site): int(count) for site, count in enumerate(rng.integers(0, 50, 5))}
        cohort = int(rng.integers(1, 200))
        found = shares(cohort, unused) if sum(unused.values()) else {}
        assert sum(found.values()) == min(cohort, sum(unused.values()))
        assert all(0 < count <= unused[site] for site, count in found.items())
