"""The client: it agrees to a study's terms, enrols once, joins a cohort, and sends one report.

A client fails closed. It first requests the study's terms and checks them against its pins (`Pins`) and its
consent (`Consent`). Only then does it enrol. It reports for a plan only if the plan keeps the terms and the
consent. The terms also say where the report goes and which public key it is encrypted to.

The client saves its token, its ticket and its sealed report in `ClientMemory` before it sends them, because
each must be made only once. A retry, even after a restart, therefore sends the same bytes, and the noise of a
report is drawn once.

`ClientCore` has the whole protocol except the network. `AsyncClient` runs it in an event loop. A program
without one calls `Transport.hold` with each dialogue of the core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import NoiseSource, SecureNoise, checked_bound, tamed
from dpbandits.protocol import Plan, decode, packed_report
from dpbandits.service.client._consent import Consent
from dpbandits.service.shared import AsyncTransport, Dialogue, call, send
from dpbandits.service.wire import (
    SHARED_MODES,
    ClientReply,
    ClientRequest,
    Pins,
    Place,
    ProvedReports,
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

MOST_ATTEMPTS = 10**6  # the highest attempt number that a URL path of the protocol accepts


class ClientMemory(msgspec.Struct, kw_only=True):
    """The state that a client saves about a study. Anyone who can read it can act as the client."""

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
        """Return a memory with a new random token and ticket."""
        return ClientMemory(token=new_secret(), ticket=new_secret())


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """The terms that a client agreed to, decoded and as the signed text."""

    terms: Terms
    signed: SignedTerms


@dataclass(kw_only=True)
class ClientCore:
    """The whole client except the network: each method is a dialogue that a transport carries out.

    For example, `transport.hold(core.enrol(code))` enrols, where `transport` is a `Transport`. `AsyncClient`
    does the same in an event loop.

    Attributes:
        url: The coordinator's URL.
        memory: The state to continue from; by default a new one, with new secrets.
        consent: The terms and plans that the client accepts.
        noise: The source of the report's noise. No configuration sets it: the default is the generator of the
            operating system. Tests pass a seeded source.
        save: Called with the memory before the client sends anything that it must remember.
        pins: What the client knows about the study from a source other than the coordinator. In the shuffle
            model at least one pin is required.
        rewards: The range of rewards in the study's units, from which averages are mapped to its scale; None
            if they are on that scale. The coordinator states it, and privacy does not depend on it.
        agreed: The terms that the client agreed to in this process, or None.
        plan: The plan that the client was asked to report for, or None.
        trouble: The last error of a party that could not be reached, or an empty string.

    Example:
        >>> from dpbandits.service.client import ClientCore, Consent
        >>> core = ClientCore(url="https://study.example", consent=Consent(trusts=("central",), epsilon=2))
        >>> core.memory.enrolled, core.plan
        (False, None)
    """

    url: str
    memory: ClientMemory = field(default_factory=ClientMemory.new)
    consent: Consent = field(default_factory=Consent)
    noise: NoiseSource = field(default_factory=SecureNoise)
    save: Callable[[ClientMemory], None] = lambda _memory: None
    pins: Pins = field(default_factory=Pins)
    rewards: RewardRange | None = None
    agreed: Agreed | None = None
    plan: Plan | None = None
    trouble: str = ""

    def agree(self) -> Dialogue[Agreed]:
        """Request the study's terms and agree to them. This spends no participation.

        Returns:
            The terms, decoded and as the signed text.

        Raises:
            Refused: The terms are not the pinned ones, changed since the client agreed, or are outside the
                client's consent.
        """
        if self.agreed is None:
            about = yield from call("GET", f"{self.url}/v1/study", StudyReply)
            signed = SignedTerms(terms=about.terms, signature=about.signature)
            terms = signed.opened()
            if about.study != signed.digest or self.memory.terms not in ("", signed.digest):
                raise Refused("other-terms", "the study's terms are not the ones that this client agreed to")
            self.pins.check(terms, signed)
            self.pins.require_path(terms)
            self.consent.check_terms(terms)
            self.rewards = _rewards(about)
            self.memory.terms = signed.digest
            self.save(self.memory)
            self.agreed = Agreed(terms=terms, signed=signed)
        return self.agreed

    def enrol(self, code: str) -> Dialogue[None]:
        """Agree to the terms if that is not done yet, then enrol in the study; repeating it is harmless.

        Args:
            code: The one-time enrolment code from the study's operator.

        Returns:
            A dialogue, which a transport carries out.

        Raises:
            Refused: The client does not agree to the terms, or the coordinator does not accept the code.
        """
        yield from self.agree()
        if not self.memory.enrolled:
            self.save(self.memory)
            request = ClientRequest(token=hashed(self.memory.token))
            yield from call("POST", f"{self.url}/v1/clients", ClientReply, secret=code, body=request)
            self.memory.enrolled = True
            self.save(self.memory)

    def task(self) -> Dialogue[TaskReply]:
        """Request this client's task, and check the plan if the reply has one.

        The coordinator adds the client to the cohort if a place is free.

        Returns:
            The coordinator's reply. Its `state` says what to do next.

        Raises:
            Refused: The plan is outside the terms or the consent, or the coordinator refused the request.
        """
        agreed = yield from self.agree()
        have = "" if self.plan is None else self.plan.digest
        request = TaskRequest(pseudonym=hashed(self.memory.ticket), have=have)
        url = f"{self.url}/v1/tasks"
        task = yield from call("POST", url, TaskReply, secret=self.memory.token, body=request)
        if task.plan is not None:
            self.plan = self._checked(task, task.plan, agreed)
        if not self.memory.sealed:  # a sealed report stays bound to the phase and attempt it was sealed for
            self.memory.phase, self.memory.attempt = task.phase or 0, task.attempt or 0
        return task

    def _checked(self, task: TaskReply, text: str, agreed: Agreed) -> Plan:
        """Decode and check the plan of a task; anything malformed or not consented to raises `Refused`.

        The digest covers the text as it was received. It must also be the digest of the decoded plan: a field
        that this version does not know could change what the plan means.
        """
        try:
            plan = decode(text, Plan)
        except Exception:  # a forged plan may cause any error
            raise Refused("no-consent", "the plan is not a valid plan of this version") from None
        if not hashed(text) == plan.digest == task.plan_digest or plan.phase != task.phase:
            raise Refused("no-consent", "the plan does not match the coordinator's digest and phase")
        self.consent.check(plan, agreed.terms, agreed.signed)
        return plan

    def report(self, averages: Sequence[float]) -> Dialogue[None]:
        """Randomize the averages and send the report.

        The noise is drawn once. Calling this again, even after a restart, sends the same bytes.

        Args:
            averages: The average reward of each supported action, in the order of `Plan.support` and in the
                units of the study (`rewards`).

        Returns:
            A dialogue, which a transport carries out.

        Raises:
            Refused: The client was not asked for a report, or the receiving party refused it.
        """
        if self.memory.sent:
            return
        terms = (yield from self.agree()).terms
        party = self.url if terms.shuffler is None else terms.shuffler.url.rstrip("/")
        if not self.memory.sealed:
            plan, place = self._asked()
            payload = packed_report(plan, self._on_scale(averages), self.noise)
            coordinator = PublicKey.parse(terms.coordinator.key)
            reader = coordinator if terms.shuffler is None else PublicKey.parse(terms.shuffler.key)
            if terms.mode in SHARED_MODES:
                one, other = self._parts(plan, place, payload, terms.mode)
                bound = bound_share(other, place, hashed(self.memory.token))
                sealed = reader.seal(one, place, "share-shuffler")
                sealed += coordinator.seal(bound, place, "share-coordinator")
            else:
                sealed = reader.seal(payload, place, "report")
            self.memory.sealed, self.memory.plan = sealed, plan.digest
            self.save(self.memory)
        url = f"{party}/v1/phases/{self.memory.phase}/attempts/{self.memory.attempt}/reports"
        yield from send(url, self.memory.sealed, secret=self.memory.ticket)
        self.memory.sent = True
        self.save(self.memory)

    def _on_scale(self, averages: Sequence[float]) -> Sequence[float]:
        """Map averages from the units of the study to its scale."""
        if self.rewards is None:
            return averages
        return [self.rewards.scaled(float(one)) for one in tamed(averages)]

    def _parts(self, plan: Plan, place: Place, payload: bytes, mode: str) -> tuple[bytes, bytes]:
        """Split a report into a part for the shuffler and one for the coordinator."""
        if mode == "verified":
            return ProvedReports.of(plan, place).parts(payload)
        return split_shares(plan, payload)

    def _asked(self) -> tuple[Plan, Place]:
        """Return the plan to report for, and the place that the report is bound to."""
        plan, attempt = self.plan, self.memory.attempt
        if plan is None:
            raise Refused("not-asked", "this client was not asked for a report")
        if self.memory.phase != plan.phase or not 1 <= attempt <= MOST_ATTEMPTS:
            raise Refused("no-consent", "the coordinator's phase or attempt does not match the plan")
        return plan, Place.of(plan.study, plan, attempt, hashed(self.memory.ticket))


def _rewards(about: StudyReply) -> RewardRange | None:
    """Return the range of rewards that the coordinator states. It is checked: the coordinator may lie."""
    found = about.rewards
    if found is None:
        return None
    try:
        return RewardRange.of((found.low, found.high), bound=checked_bound(found.bound))
    except InvalidValue as error:
        raise Refused("other-terms", f"the study's range of rewards is not valid: {error}") from None


class AsyncClient:
    """A client for an event loop; each method carries out the `ClientCore` dialogue of the same name.

    Args:
        core: The client's state and protocol.
        transport: Sends the requests; many clients may share one.

    Example:
        >>> import asyncio
        >>> from dpbandits.errors import Unreachable
        >>> from dpbandits.service.client import AsyncClient, ClientCore
        >>> from dpbandits.service.shared import AsyncTransport, Backoff
        >>> async def enrol(code):
        ...     async with AsyncTransport(patience=Backoff(tries=1)) as transport:
        ...         try:
        ...             await AsyncClient(ClientCore(url="http://127.0.0.1:9"), transport).enrol(code)
        ...         except Unreachable:
        ...             return "retry later"
        >>> asyncio.run(enrol("a code from the operator"))
        'retry later'
    """

    def __init__(self, core: ClientCore, transport: AsyncTransport) -> None:
        self.core = core
        self._transport = transport

    async def agree(self) -> Terms:
        """Request the study's terms and agree to them; see `ClientCore.agree`.

        Returns:
            The terms.
        """
        return (await self._transport.hold(self.core.agree())).terms

    async def enrol(self, code: str) -> None:
        """Enrol in the study with a one-time code; see `ClientCore.enrol`.

        Args:
            code: The one-time enrolment code.
        """
        await self._transport.hold(self.core.enrol(code))

    async def task(self) -> TaskReply:
        """Request this client's task; see `ClientCore.task`.

        Returns:
            The coordinator's reply.
        """
        return await self._transport.hold(self.core.task())

    async def report(self, averages: Sequence[float]) -> None:
        """Randomize the averages and send the report; see `ClientCore.report`.

        Args:
            averages: The average reward of each supported action.
        """
        await self._transport.hold(self.core.report(averages))
