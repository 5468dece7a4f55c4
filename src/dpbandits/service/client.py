"""A client's part: enrol once, join, record rewards, send one report. Works behind networks that fail.

What must not be made twice is kept in `ClientMemory` before it is sent: the token, the ticket and the sealed
report. So a retry, even after a restart, sends the same bytes, and noise is drawn once for one answer.
`Client` is synchronous, `AsyncClient` is not; they differ in the transport alone.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from dpbandits.errors import PlanMismatch, Refused
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, decode, respond_with_averages
from dpbandits.service.consent import Consent
from dpbandits.service.dialogue import Dialogue, call, tell
from dpbandits.service.messages import (
    ClientReply,
    ClientRequest,
    KeyReply,
    StudyReply,
    TaskReply,
    TaskRequest,
)
from dpbandits.service.sealing import Place, PublicKey
from dpbandits.service.tokens import hashed, new_secret
from dpbandits.service.transport import AsyncTransport, Transport
from dpbandits.service.wire import pack_report, split_shares


class ClientMemory(msgspec.Struct, kw_only=True):
    """What a client keeps of a study. Whoever reads it can act as the client."""

    token: str = ""
    ticket: str = ""
    enrolled: bool = False
    plan: str = ""
    phase: int = 0
    attempt: int = 0
    sealed: str = ""
    sent: bool = False

    @staticmethod
    def new() -> ClientMemory:
        """With secrets of its own."""
        return ClientMemory(token=new_secret(), ticket=new_secret())


@dataclass(kw_only=True)
class ClientCore:
    """All of a client but the network. `save` is called before anything that must be remembered is sent.

    No configuration reaches `noise`: it is the operating system's. A test may hand in a seeded source.
    `shuffler_key` pins the shuffler's key; without it the shuffler is asked for it over TLS.
    """

    url: str
    memory: ClientMemory = field(default_factory=ClientMemory.new)
    consent: Consent = field(default_factory=Consent)
    noise: NoiseSource = field(default_factory=SecureNoise)
    save: Callable[[ClientMemory], None] = lambda _memory: None
    shuffler_url: str | None = None
    shuffler_key: PublicKey | None = None
    about: StudyReply | None = None
    plan: Plan | None = None
    trouble: str = ""  # why a party could not be reached, the last time that one could not

    def enrol(self, code: str) -> Dialogue[None]:
        """Become a client of the study, by a one-time code."""
        if not self.memory.enrolled:
            self.save(self.memory)
            request = ClientRequest(token=hashed(self.memory.token))
            yield from call("POST", f"{self.url}/v1/clients", ClientReply, secret=code, body=request)
            self.memory.enrolled = True
            self.save(self.memory)

    def task(self) -> Dialogue[TaskReply]:
        """Where this client stands; it joins if there is a place. The plan is checked against the consent."""
        have = "" if self.plan is None else self.plan.digest
        request = TaskRequest(pseudonym=hashed(self.memory.ticket), have=have)
        url = f"{self.url}/v1/tasks"
        task = yield from call("POST", url, TaskReply, secret=self.memory.token, body=request)
        if bytes(task.plan) != b"null":
            self._learn(task, decode(bytes(task.plan), Plan))
        self.memory.phase, self.memory.attempt = task.phase, task.attempt
        return task

    def _learn(self, task: TaskReply, plan: Plan) -> None:
        if plan.digest != task.plan_digest or plan.study != task.study:
            raise PlanMismatch("the plan is not the one that the coordinator names")
        self.consent.check(plan)
        self.plan = plan

    def report(self, averages: Sequence[float]) -> Dialogue[None]:
        """Randomize and send the average reward of each supported action; once, whatever is retried."""
        if not self.memory.sealed:
            yield from self._prepare(averages)
        yield from self.resend()

    def resend(self) -> Dialogue[None]:
        """Send what was prepared, which may have been sent before."""
        if self.memory.sealed and not self.memory.sent:
            about = yield from self._about()
            party = self.url if about.shuffler is None else self._shuffler_url(about)
            url = f"{party}/v1/phases/{self.memory.phase}/attempts/{self.memory.attempt}/reports"
            body = base64.b64decode(self.memory.sealed)
            yield from tell(url, body, secret=self.memory.ticket)
            self.memory.sent = True
            self.save(self.memory)

    def _prepare(self, averages: Sequence[float]) -> Dialogue[None]:
        if self.plan is None:
            raise Refused("not-asked", "this client has no task")
        plan, about = self.plan, (yield from self._about())
        place = Place(
            study=plan.study,
            phase=plan.phase,
            attempt=self.memory.attempt,
            plan=plan.digest,
            pseudonym=hashed(self.memory.ticket),
        )
        body = yield from self._sealed(plan, averages, place, about)
        self.memory.sealed, self.memory.plan = base64.b64encode(body).decode(), plan.digest
        self.save(self.memory)

    def _sealed(
        self, plan: Plan, averages: Sequence[float], place: Place, about: StudyReply
    ) -> Dialogue[bytes]:
        coordinator = PublicKey.parse(about.key)
        reader = coordinator
        if about.shuffler is not None:
            reader = yield from self._shuffler_key(about)
        report = respond_with_averages(plan, averages, self.noise)
        if about.shuffler is None or about.shuffler.mode == "trusted":
            return reader.seal(pack_report(plan, report), place, "report")
        one, other = split_shares(plan, report)
        mine = reader.seal(one, place, "share-shuffler")
        return mine + coordinator.seal(other, place, "share-coordinator")

    def _about(self) -> Dialogue[StudyReply]:
        if self.about is None:
            self.about = yield from call("GET", f"{self.url}/v1/study", StudyReply)
        return self.about

    def _shuffler_url(self, about: StudyReply) -> str:
        assert about.shuffler is not None
        return (self.shuffler_url or about.shuffler.url).rstrip("/")

    def _shuffler_key(self, about: StudyReply) -> Dialogue[PublicKey]:
        if self.shuffler_key is None:
            found = yield from call("GET", f"{self._shuffler_url(about)}/v1/key", KeyReply)
            if about.shuffler is None or found.mode != about.shuffler.mode:
                raise Refused("other-mode", "coordinator and shuffler name different modes")
            self.shuffler_key = PublicKey.parse(found.key)
        return self.shuffler_key


class Client:
    """A synchronous client."""

    def __init__(self, core: ClientCore, transport: Transport) -> None:
        self.core = core
        self._transport = transport

    def enrol(self, code: str) -> None:
        """Become a client of the study, by a one-time code."""
        self._transport.hold(self.core.enrol(code))

    def task(self) -> TaskReply:
        """Where this client stands; it joins if there is a place."""
        return self._transport.hold(self.core.task())

    def report(self, averages: Sequence[float]) -> None:
        """Randomize and send; once, whatever is retried."""
        self._transport.hold(self.core.report(averages))

    def resend(self) -> None:
        """Send what was prepared before a restart."""
        self._transport.hold(self.core.resend())


class AsyncClient:
    """An asynchronous client."""

    def __init__(self, core: ClientCore, transport: AsyncTransport) -> None:
        self.core = core
        self._transport = transport

    async def enrol(self, code: str) -> None:
        """Become a client of the study, by a one-time code."""
        await self._transport.hold(self.core.enrol(code))

    async def task(self) -> TaskReply:
        """Where this client stands; it joins if there is a place."""
        return await self._transport.hold(self.core.task())

    async def report(self, averages: Sequence[float]) -> None:
        """Randomize and send; once, whatever is retried."""
        await self._transport.hold(self.core.report(averages))

    async def resend(self) -> None:
        """Send what was prepared before a restart."""
        await self._transport.hold(self.core.resend())
