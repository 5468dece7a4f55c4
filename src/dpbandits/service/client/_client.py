"""A client's part: agree to the terms, enrol once, join, record rewards, send one report.

A client fails closed. It asks for the study's terms first, checks them against what it has pinned (`Pins`)
and what it consents to (`Consent`), and only then enrols. A plan is answered only if it keeps the terms and
the consent. Where the report goes, and whom it is sealed to, follows from the terms.

What must not be made twice is kept in `ClientMemory` before it is sent: the token, the ticket and the sealed
report. So a retry, even after a restart, sends the same bytes, and noise is drawn once for one answer.
`Client` is synchronous, `AsyncClient` is not; they differ in the transport alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from dpbandits.errors import Refused
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, decode, respond_with_averages
from dpbandits.service.client._consent import Consent
from dpbandits.service.shared import AsyncTransport, Dialogue, Transport, call, tell
from dpbandits.service.wire import (
    ClientReply,
    ClientRequest,
    Pins,
    Place,
    PublicKey,
    SignedTerms,
    StudyReply,
    TaskReply,
    TaskRequest,
    Terms,
    bound_share,
    hashed,
    new_secret,
    split_shares,
)

MOST_ATTEMPTS = 10**6  # no path of the protocol names a higher one


class ClientMemory(msgspec.Struct, kw_only=True):
    """What a client keeps of a study. Whoever reads it can act as the client."""

    token: str = ""
    ticket: str = ""
    terms: str = ""  # the digest of the terms that the client agreed to
    enrolled: bool = False
    plan: str = ""
    phase: int = 0
    attempt: int = 0
    sealed: bytes = b""  # base64 in the file
    sent: bool = False

    @staticmethod
    def new() -> ClientMemory:
        """With secrets of its own."""
        return ClientMemory(token=new_secret(), ticket=new_secret())


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """The terms that a client agreed to, and the text that has their digest."""

    terms: Terms
    signed: SignedTerms


@dataclass(kw_only=True)
class ClientCore:
    """All of a client but the network. `save` is called before anything that must be remembered is sent.

    No configuration reaches `noise`: it is the operating system's. A test may hand in a seeded source.
    `pins` is what the client knows from elsewhere than the coordinator; in the shuffle model it must say
    something.
    """

    url: str
    memory: ClientMemory = field(default_factory=ClientMemory.new)
    consent: Consent = field(default_factory=Consent)
    noise: NoiseSource = field(default_factory=SecureNoise)
    save: Callable[[ClientMemory], None] = lambda _memory: None
    pins: Pins = field(default_factory=Pins)
    agreed: Agreed | None = None
    plan: Plan | None = None
    trouble: str = ""  # why a party could not be reached, the last time that one could not

    def agree(self) -> Dialogue[Agreed]:
        """Ask for the study's terms and agree to them, or raise `Refused`. Nothing is spent by this."""
        if self.agreed is None:
            about = yield from call("GET", f"{self.url}/v1/study", StudyReply)
            signed = SignedTerms(terms=about.terms, signature=about.signature)
            terms = signed.opened()
            if about.study != signed.digest or self.memory.terms not in ("", signed.digest):
                raise Refused("other-terms", "the study's terms are not those that this client agreed to")
            self.pins.check(terms, signed)
            self.pins.require_path(terms)
            self.consent.check_terms(terms)
            self.memory.terms = signed.digest
            self.save(self.memory)
            self.agreed = Agreed(terms=terms, signed=signed)
        return self.agreed

    def enrol(self, code: str) -> Dialogue[None]:
        """Become a client of the study, by a one-time code, once its terms are agreed to."""
        yield from self.agree()
        if not self.memory.enrolled:
            self.save(self.memory)
            request = ClientRequest(token=hashed(self.memory.token))
            yield from call("POST", f"{self.url}/v1/clients", ClientReply, secret=code, body=request)
            self.memory.enrolled = True
            self.save(self.memory)

    def task(self) -> Dialogue[TaskReply]:
        """Where this client stands; it joins if there is a place. The plan is checked against the consent."""
        agreed = yield from self.agree()
        have = "" if self.plan is None else self.plan.digest
        request = TaskRequest(pseudonym=hashed(self.memory.ticket), have=have)
        url = f"{self.url}/v1/tasks"
        task = yield from call("POST", url, TaskReply, secret=self.memory.token, body=request)
        if bytes(task.plan) != b"null":
            self.plan = self._checked(task, agreed)
        if not self.memory.sealed:  # what is sealed is for the phase and attempt that it was sealed for
            self.memory.phase, self.memory.attempt = task.phase, task.attempt
        return task

    def _checked(self, task: TaskReply, agreed: Agreed) -> Plan:
        """The plan of a task, or `Refused`, whatever the coordinator has sent."""
        try:
            plan = decode(bytes(task.plan), Plan)
        except Exception:  # a plan that was made up may lead to any error
            raise Refused("no-consent", "the plan is not one of this version") from None
        if plan.digest != task.plan_digest or plan.phase != task.phase:
            raise Refused("no-consent", "the plan is not the one that the coordinator names")
        self.consent.check(plan, agreed.terms, agreed.signed)
        return plan

    def report(self, averages: Sequence[float]) -> Dialogue[None]:
        """Randomize and send the average reward of each supported action; once, whatever is retried."""
        if not self.memory.sealed:
            self._prepare(averages, (yield from self.agree()).terms)
        yield from self.resend()

    def resend(self) -> Dialogue[None]:
        """Send what was prepared, which may have been sent before."""
        if self.memory.sealed and not self.memory.sent:
            terms = (yield from self.agree()).terms
            party = self.url if terms.shuffler is None else terms.shuffler.url.rstrip("/")
            url = f"{party}/v1/phases/{self.memory.phase}/attempts/{self.memory.attempt}/reports"
            yield from tell(url, self.memory.sealed, secret=self.memory.ticket)
            self.memory.sent = True
            self.save(self.memory)

    def _prepare(self, averages: Sequence[float], terms: Terms) -> None:
        """Draw the noise, once, and remember the sealed report before anything is sent."""
        plan = self.plan
        if plan is None:
            raise Refused("not-asked", "this client has no task")
        if self.memory.phase != plan.phase or not 1 <= self.memory.attempt <= MOST_ATTEMPTS:
            raise Refused("no-consent", "the coordinator names a phase or an attempt that is not the plan's")
        place = Place(
            study=plan.study,
            phase=plan.phase,
            attempt=self.memory.attempt,
            plan=plan.digest,
            pseudonym=hashed(self.memory.ticket),
        )
        coordinator = PublicKey.parse(terms.coordinator.key)
        reader = coordinator if terms.shuffler is None else PublicKey.parse(terms.shuffler.key)
        payload = respond_with_averages(plan, averages, self.noise).payload
        if terms.mode == "split":
            one, other = split_shares(plan, payload)
            bound = bound_share(other, place, hashed(self.memory.token))
            sealed = reader.seal(one, place, "share-shuffler")
            sealed += coordinator.seal(bound, place, "share-coordinator")
        else:
            sealed = reader.seal(payload, place, "report")
        self.memory.sealed, self.memory.plan = sealed, plan.digest
        self.save(self.memory)


class Client:
    """A synchronous client."""

    def __init__(self, core: ClientCore, transport: Transport) -> None:
        self.core = core
        self._transport = transport

    def agree(self) -> Terms:
        """Ask for the study's terms and agree to them; raises `Refused` if they promise too little."""
        return self._transport.hold(self.core.agree()).terms

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

    async def agree(self) -> Terms:
        """Ask for the study's terms and agree to them; raises `Refused` if they promise too little."""
        return (await self._transport.hold(self.core.agree())).terms

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
