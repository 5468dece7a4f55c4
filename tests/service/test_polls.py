"""Polls that are answered from memory: the same replies as from the store, and no stale ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from dpbandits.errors import Refused, StorageError
from dpbandits.service.coordinator._polls import Polls
from dpbandits.service.wire import TaskReply, TaskRequest

from .helpers import Deployment, Member, small_study


class Asked:
    """A cohort whose clients poll, with a count of how often the store is read for them."""

    def __init__(self, trust: str, mode: str | None) -> None:
        self.now = 0.0
        self.deployed = Deployment(study=small_study(trust), mode=mode)
        self.deployed.advance()
        self.polls = Polls(
            self.deployed.coordinator.clients, self.deployed.coordinator.writer, clock=lambda: self.now
        )
        self.members = self.deployed.enrolled(7)
        self.reads = 0
        run = self.deployed.coordinator.writer.run_async

        async def counted(*given: Any, **options: Any) -> Any:
            self.reads += 1
            return await run(*given, **options)

        self.deployed.coordinator.writer.run_async = counted  # type: ignore[method-assign]

    def stored(self, member: Member) -> TaskReply:
        """Poll with the store, and let the replies from memory learn from it."""
        reply: TaskReply = self.deployed.task(member)
        self.polls.learn(member.token, TaskRequest(pseudonym=member.pseudonym), reply)
        return reply

    def remembered(self, *members: Member, have: str = "") -> list[TaskReply | None]:
        async def together() -> list[TaskReply | None]:
            polled = (
                self.polls.reply(one.token, TaskRequest(pseudonym=one.pseudonym, have=have))
                for one in members
            )
            return await asyncio.gather(*polled)

        return asyncio.run(together())


@pytest.fixture(params=[("central", None), ("shuffle", "verified")])
def asked(request: pytest.FixtureRequest) -> Any:
    made = Asked(*request.param)
    yield made
    made.deployed.close()


def test_replies_from_memory_are_those_of_the_store_at_every_step(asked: Asked) -> None:
    deployed, (*members, late) = asked.deployed, asked.members
    assert asked.remembered(members[0]) == [None]  # nobody has joined: the store decides
    replies = [asked.stored(member) for member in members]
    assert {reply.state for reply in replies} == {"joined"}
    assert asked.stored(late).state == "wait"
    assert asked.remembered(late) == [None]
    assert asked.remembered(*members) == replies
    assert asked.reads == 1  # one for all
    digest = replies[0].plan_digest or ""
    assert asked.remembered(members[0], have=digest) == [
        deployed.run(
            lambda t: deployed.coordinator.clients.task(t, members[0].token, members[0].pseudonym, digest)
        )
    ]
    stranger = replace(members[0], ticket="another")
    assert asked.remembered(stranger) == [None]  # the store refuses it
    deployed.advance()
    deployed.play()
    assert asked.remembered(members[0]) == [deployed.task(members[0])]
    asked.polls.forget(members[1].pseudonym)  # as after its report
    assert asked.remembered(members[1]) == [None]
    deployed.report(members)
    assert asked.remembered(*members) == [None] * len(members)  # over: the store knows who has reported
    assert {deployed.task(member).state for member in members} == {"over"}


def test_what_another_worker_changes_is_noticed_within_a_quarter_of_a_second(asked: Asked) -> None:
    member = asked.members[0]
    reply = asked.stored(member)
    assert asked.remembered(member) == [reply]
    with asked.deployed.store.transaction() as transaction:
        latest = transaction.latest(lock=True)
        assert latest is not None
        transaction.change_attempt(latest, replace(latest, state="failed"))
    asked.now += 0.2
    assert asked.remembered(member) == [reply]
    asked.now += 0.1
    assert asked.remembered(member) == [None]


def test_a_store_that_cannot_be_read_fails_every_poll_and_later_ones_try_again(asked: Asked) -> None:
    members, writer = asked.members[:2], asked.deployed.coordinator.writer
    replies = [asked.stored(member) for member in members]
    honest: Callable[..., Any] = writer.run_async

    async def broken(*_given: Any, **_options: Any) -> Any:
        raise StorageError("storage: gone")

    writer.run_async = broken  # type: ignore[method-assign]
    for _ in range(2):
        with pytest.raises(StorageError):
            asked.remembered(*members)
    writer.run_async = honest  # type: ignore[method-assign]
    assert asked.remembered(*members) == replies


def test_guessed_credentials_do_not_make_other_polls_read_the_store(asked: Asked) -> None:
    members = asked.members[:-1]
    replies = [asked.stored(member) for member in members]
    assert asked.remembered(*members) == replies
    before, writer = asked.reads, asked.deployed.coordinator.writer
    task = asked.deployed.coordinator.clients.task
    for number in range(3):
        with pytest.raises(Refused, match="no such client"):
            writer.run("join", lambda t, own=number: task(t, f"guess {own}", "pseudonym"))
        assert asked.remembered(*members) == replies
    assert asked.reads == before
