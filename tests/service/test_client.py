"""The client: retries are idempotent, its memory survives a restart, and it checks its consent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue, ProtocolError, Refused, Unreachable
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan, ask
from dpbandits.service.actuator import Actuator, play_all
from dpbandits.service.client import AsyncClient, ClientCore, Consent, MemoryFile, take_part
from dpbandits.service.client._agent import Recorder
from dpbandits.service.client._client import ClientMemory
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import AsyncTransport, Backoff, RoleTokens, Timing, Transport
from dpbandits.service.shared._dialogue import Incoming
from dpbandits.service.wire import hashed, new_secret

from .blocking_client import Client, take_part_in_turn
from .helpers import Deployment, client_averages, small_study
from .live import served

ALL = Consent(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)
QUICK = Backoff(tries=4, first_seconds=0.001)
TOKEN = new_secret()


@pytest.fixture
def site() -> Iterator[tuple[str, Deployment]]:
    timing = Timing(report_seconds=60, poll_seconds=0.02)
    deployed = Deployment(study=small_study("central"), mode=None, timing=timing)
    with served(coordinator_app(deployed.coordinator, RoleTokens(hashes={"actuator": hashed(TOKEN)}))) as url:
        yield url, deployed


def _codes(deployed: Deployment, count: int) -> list[str]:
    codes = deployed.coordinator.operator.new_codes(count).codes
    deployed.run(lambda t: deployed.coordinator.operator.keep_codes(t, codes))
    return codes


def _averages(deployed: Deployment, core: ClientCore) -> Callable[[Plan], list[float]]:
    return lambda plan: client_averages(deployed.study.actions, plan, hashed(core.memory.ticket))


def test_agents_and_an_actuator_take_a_study_to_its_end(site: tuple[str, Deployment]) -> None:
    url, deployed = site
    codes = _codes(deployed, 18)

    async def everybody() -> list[bool]:
        async with AsyncTransport(patience=QUICK) as transport:
            cores = [ClientCore(url=url, consent=ALL) for _ in codes]
            each = zip(cores, codes, strict=True)
            parts = [
                take_part(AsyncClient(core, transport), code, _averages(deployed, core))
                for core, code in each
            ]
            with Transport(patience=QUICK) as own:
                playing = asyncio.to_thread(
                    play_all, Actuator(url, TOKEN, own), lambda _action, _rounds: None, pause=0.02
                )
                *answers, _ = await asyncio.gather(*parts, playing)
        return answers

    assert sum(asyncio.run(everybody())) == 16
    assert deployed.coordinator.ended


def test_the_synchronous_client_does_the_same(site: tuple[str, Deployment]) -> None:
    url, deployed = site
    codes = _codes(deployed, 6)
    with Transport(patience=QUICK) as transport:
        clients = [Client(ClientCore(url=url, consent=ALL), transport) for _ in codes]
        for client, code in zip(clients, codes, strict=True):
            client.enrol(code)
            assert client.task().state == "joined"
        actuator = Actuator(url, TOKEN, transport)
        while (schedule := actuator.schedule()).state != "playing":
            pass
        assert actuator.play().action == schedule.runs[0].action
        actuator.played(schedule.phase, schedule.attempt, schedule.rounds)
        answered = [
            take_part_in_turn(client, code, _averages(deployed, client.core))
            for client, code in zip(clients, codes, strict=True)
        ]
        assert answered == [True] * 6


class Flaky(httpx.AsyncBaseTransport):
    """Delivers every request, but loses every second reply."""

    def __init__(self) -> None:
        self._real = httpx.AsyncHTTPTransport()
        self.count = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reply = await self._real.handle_async_request(request)
        self.count += 1
        if self.count % 2:
            await reply.aread()
            raise httpx.ReadTimeout("lost")
        return reply

    async def aclose(self) -> None:
        await self._real.aclose()


def test_lost_replies_change_nothing(site: tuple[str, Deployment]) -> None:
    url, deployed = site
    codes = _codes(deployed, 6)
    with Transport(patience=QUICK) as transport:
        flaky = Flaky()
        transport._transport._http = httpx.AsyncClient(transport=flaky)
        clients = [Client(ClientCore(url=url, consent=ALL), transport) for _ in codes]
        for client, code in zip(clients, codes, strict=True):
            client.enrol(code)
            assert client.task().state == "joined"
        while Actuator(url, TOKEN, transport).schedule().state != "playing":
            pass
        deployed.play()
        for client in clients:
            client.task()
            assert client.core.plan is not None
            client.report(_averages(deployed, client.core)(client.core.plan))
        assert flaky.count > 24
    for _ in range(1000):
        if deployed.run(deployed.coordinator.operator.status).releases:
            break
    with deployed.store.transaction() as transaction:
        assert transaction.count_reports(1, 1) == 6


def test_a_restarted_client_sends_the_same_bytes(tmp_path: Path) -> None:
    deployed = Deployment(study=small_study("local"), mode=None)
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    kept = MemoryFile(tmp_path / "memory.json")
    memory = kept.load()
    memory.token, memory.ticket, memory.enrolled = members[0].token, members[0].ticket, True
    first = ClientCore(url="https://nowhere", memory=memory, consent=ALL, save=kept.save)
    sent = list[bytes]()

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/study":
            return httpx.Response(200, content=_json(deployed.coordinator.operator.about()))
        if request.url.path == "/v1/tasks":
            return httpx.Response(200, content=_json(deployed.task(members[0])))
        sent.append(request.content)
        raise httpx.ConnectError("lost")

    with Transport(patience=QUICK) as transport:
        transport._transport._http = httpx.AsyncClient(transport=httpx.MockTransport(answer))
        for given in (first, None):
            core = given or ClientCore(url="https://nowhere", memory=kept.load(), consent=ALL, save=kept.save)
            client = Client(core, transport)
            client.task()
            assert core.plan is not None
            with pytest.raises(Unreachable):
                client.report(_averages(deployed, core)(core.plan))
    assert len(sent) == 2 * QUICK.tries
    assert len(set(sent)) == 1
    assert kept.load().sealed == sent[0]
    deployed.send(members[0], sent[0])
    deployed.close()


def _json(value: object) -> bytes:
    import msgspec

    return msgspec.json.encode(value)


def test_an_agent_waits_for_a_party_that_is_away(site: tuple[str, Deployment]) -> None:
    url, deployed = site
    (code,) = _codes(deployed, 1)
    real, lost = httpx.AsyncHTTPTransport(), list[str]()

    class Away(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if len(lost) < 3 * QUICK.tries:
                lost.append(request.url.path)
                raise httpx.ConnectError("away")
            return await real.handle_async_request(request)

    async def one() -> bool:
        async with AsyncTransport(patience=QUICK) as transport:
            await transport._http.aclose()
            transport._http = httpx.AsyncClient(transport=Away())
            core = ClientCore(url=url, consent=ALL)
            done = await take_part(AsyncClient(core, transport), code, _averages(deployed, core), patience=5)
            await real.aclose()
            assert core.memory.enrolled
            return done

    assert asyncio.run(one()) is False  # the study is still gathering: `patience` ran out without an error
    assert len(lost) == 3 * QUICK.tries


def test_a_plan_that_is_not_the_one_named_is_refused() -> None:
    deployed = Deployment(study=small_study("local"), mode=None)
    deployed.advance()
    (member,) = deployed.enrolled(1)
    task = deployed.task(member)
    core = ClientCore(url="https://nowhere", consent=ALL)
    dialogue = core.task()
    next(dialogue)
    dialogue.send(Incoming(status=200, content=_json(deployed.coordinator.operator.about())))
    forged = _json(task).replace(task.plan_digest.encode(), b"0" * 64)
    with pytest.raises(Refused, match="does not match the coordinator's digest"):
        dialogue.send(Incoming(status=200, content=forged))
    deployed.close()


def test_averages_are_mapped_from_the_units_of_the_study() -> None:
    deployed = Deployment(study=small_study("none", reward_range=(2, 4), bound=0.5), mode=None)
    about = deployed.coordinator.operator.about()
    deployed.close()
    assert about.features[-1] == "reward-range"
    core = ClientCore(url="https://nowhere", consent=ALL)
    _agree(core, _json(about))
    assert core.rewards == RewardRange(low=2, high=4, bound=0.5)
    mapped = core._on_scale([2.0, 3.5, 99.0, float("nan"), -float("inf")])  # NaN counts as 0
    assert mapped == [-0.5, 0.25, 0.5, -0.5, -0.5]
    plan = ask(small_study("none").begin())
    recorder = Recorder(plan, rewards=core.rewards)
    recorder.record(plan.support[0], 99.0)
    assert recorder._totals[0] == 4.0
    text = _json(about)
    lies = (
        (b'"low":2.0', b"4.0"),
        (b'"low":2.0', b"1e999"),
        (b'"bound":0.5', b"-1.0"),
        (b'"high":4.0', b"[]"),
    )
    for told, lie in lies:
        forged = text.replace(told, told.partition(b":")[0] + b":" + lie)
        assert forged != text
        with pytest.raises((Refused, ProtocolError)):
            _agree(ClientCore(url="https://nowhere", consent=ALL), forged)


def _agree(core: ClientCore, reply: bytes) -> None:
    dialogue = core.agree()
    next(dialogue)
    with contextlib.suppress(StopIteration):
        dialogue.send(Incoming(status=200, content=reply))


def test_rewards_are_recorded_for_every_play() -> None:
    plan = ask(small_study("local").begin())
    recorder = Recorder(plan)
    for action, plays in zip(plan.support, plan.plays, strict=True):
        for number in range(plays):
            assert not recorder.complete
            recorder.record(action, float(number % 2))
    assert recorder.complete
    assert recorder.averages() == [(plays // 2) / plays for plays in plan.plays]
    with pytest.raises(InvalidValue, match="rewards"):
        recorder.record(plan.support[0], 1.0)
    with pytest.raises(InvalidValue, match="action"):
        recorder.record(-1, 1.0)
    with pytest.raises(InvalidValue, match="one reward per play"):
        Recorder(plan).averages()


def test_missed_plays_are_counted_and_averaged_over_as_far_as_allowed() -> None:
    plan = ask(small_study("local").begin())
    first, others = plan.support[0], zip(plan.support[1:], plan.plays[1:], strict=True)
    strict, lenient = Recorder(plan), Recorder(plan, allowed_loss=0.5)
    for recorder in (strict, lenient):
        for action, plays in others:
            for _ in range(plays):
                recorder.record(action, 0.25)
        others = zip(plan.support[1:], plan.plays[1:], strict=True)
        assert recorder.missed == {first: plan.plays[0]}
        assert (recorder.loss, recorder.enough) == (1.0, False)
        while recorder.loss > 0.5:
            recorder.record(first, 0.75)
    lost = plan.plays[0] // 2
    assert (lenient.missed, lenient.enough, lenient.complete) == ({first: lost}, True, False)
    assert lenient.averages() == [0.75] + [0.25] * (len(plan.support) - 1)
    with pytest.raises(InvalidValue, match=f"got none for {lost} of action {first}, expected one reward per"):
        strict.averages()
    with pytest.raises(InvalidValue, match="allowed_loss: got 1"):
        Recorder(plan, allowed_loss=1)


def test_a_memory_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("{")
    with pytest.raises(InvalidValue, match="memory"):
        MemoryFile(tmp_path / "memory").load()
    assert ClientMemory.new().token != ClientMemory.new().token


def test_the_memory_is_on_the_disk_before_the_client_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new file is durable once its content is synced, then renamed, then its directory is synced."""
    steps, sync, rename = list[str](), os.fsync, Path.replace

    def fsync(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replace(path: Path, target: Path) -> Path:
        steps.append("rename")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    MemoryFile(tmp_path / "memory.json").save(ClientMemory.new())
    assert steps == ["file", "rename", "directory"]
