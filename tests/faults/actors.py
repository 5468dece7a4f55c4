"""The callers: clients, which run the real client code, the actuator and the operator. All of them retry."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dpbandits.errors import Refused
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan
from dpbandits.service.client import ClientCore, Consent
from dpbandits.service.client._agent import DONE
from dpbandits.service.client._client import ClientMemory
from dpbandits.service.shared import call
from dpbandits.service.shared._dialogue import RETRIED, Incoming, Outgoing
from dpbandits.service.wire import (
    EnrolmentReply,
    EnrolmentRequest,
    Pins,
    ResultsReply,
    RoundsRequest,
    ScheduleReply,
    SignedTerms,
    StatusReply,
    Terms,
    hashed,
)
from tests.service.helpers import client_averages, client_noise

from .lies import Fault
from .party import TOKENS, Site

Life = Generator[Outgoing | None, Incoming | None, None]
"""A generator of requests; None is a pause."""

URL = "http://coordinator"


class Believing(Consent):
    """A consent that accepts every plan. The real check is slow, and has its own tests."""

    def check(self, plan: Plan, terms: Terms, signed: SignedTerms) -> None:
        pass


CONSENT = Believing(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)
WARY = Consent(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)


class Actor:
    """Sends one request at a time, and sends it again if there is no reply."""

    def __init__(self) -> None:
        self.problem = ""
        self.gone = False
        self.says: Outgoing | None = None
        self.aside: list[Outgoing] = []  # sent at the same time as `says`; replies are dropped
        self._life = self.live()
        self._advance(None)

    def live(self) -> Life:
        raise NotImplementedError

    def hear(self, reply: Incoming | None) -> None:
        """Handle the reply to the last request. Without a reply, or if the party is busy, send it again."""
        if self.says is None or (reply is not None and reply.status not in RETRIED):
            self._advance(reply)

    def _advance(self, reply: Incoming | None) -> None:
        try:
            self.says = next(self._life) if reply is None else self._life.send(reply)
        except StopIteration:
            self.gone, self.says = True, None
        except Exception as error:
            self.gone, self.says = True, None
            self.problem = f"{type(self).__name__}: {type(error).__name__} {error}"


class Person(Actor):
    """A client. It may restart and lose all that it has not saved, or vanish.

    A client that the coordinator lies to checks every plan with the real consent. It may refuse to continue
    after a lie.
    """

    def __init__(self, number: int, code: str, site: Site, faults: list[Fault]) -> None:
        self.number = number
        self._code = code
        self._study = site.study
        by_key = site.operator is not None and number % 2 == 0
        self._pins = Pins(operator_key=site.operator) if by_key else Pins(terms=site.study.terms)
        self._consent = WARY if any(fault.kind == "coordinator-lie" for fault in faults) else CONSENT
        self.lied = False
        self.told: list[Plan] = []  # plans that the coordinator made up for this client
        self._faults = faults
        secrets = (f"token-of-client-{number:04}", f"ticket-of-client-{number:04}")
        self._saved = msgspec.json.encode(ClientMemory(token=secrets[0], ticket=secrets[1]))
        self.met: list[str] = []
        self._begin()
        super().__init__()

    def _begin(self) -> None:
        memory = msgspec.json.decode(self._saved, type=ClientMemory)
        self.pseudonym = hashed(memory.ticket)
        noise = client_noise(self.pseudonym)
        self.core = ClientCore(
            url=URL, memory=memory, consent=self._consent, noise=noise, save=self._save, pins=self._pins
        )

    def _save(self, memory: ClientMemory) -> None:
        self._saved = msgspec.json.encode(memory)

    def live(self) -> Life:
        while True:
            try:
                yield from self.core.enrol(self._code)
                task = yield from self.core.task()
                if task.state == "report":
                    yield from self.core.report(self._averages())
                    return
            except Refused as refusal:
                if refusal.reason == "closed":
                    return
                if self.lied:
                    self.met.append("a client refused a lie")
                    return
                raise
            if task.state in DONE:
                return
            yield None

    def _averages(self) -> list[float]:
        """Return the averages, as a real client does: it has none without a plan, or for unknown actions."""
        plan = self.core.plan
        if plan is None or not set(plan.support) <= set(range(self._study.actions.count)):
            raise Refused("not-asked", "this client has no averages of such actions")
        return client_averages(self._study.actions, plan, self.pseudonym)

    @property
    def ticket(self) -> str:
        return self.core.memory.ticket

    @property
    def token(self) -> str:
        return self.core.memory.token

    def hear(self, reply: Incoming | None) -> None:
        if self._suffer("sent" if self.reporting else ""):
            return  # the client that sent the request no longer exists
        super().hear(reply)
        memory = self.core.memory
        reached = "sealed" if memory.sealed else "joined" if memory.phase else "enrolled"
        self._suffer(reached if memory.enrolled else "")

    @property
    def reporting(self) -> bool:
        return self.says is not None and self.says.url.endswith("/reports")

    def _suffer(self, stage: str) -> bool:
        suffered = [one for one in self._faults if one.step == stage and one.kind != "coordinator-lie"]
        for fault in suffered:
            self._faults.remove(fault)
            self.met.append(fault.kind)
            if fault.kind == "vanish":
                self.gone, self.says = True, None
            else:
                self._begin()
                self._life = self.live()
                self._advance(None)
        return bool(suffered)


class Player(Actor):
    """The actuator. It also reports partial progress."""

    def live(self) -> Life:
        token = TOKENS["actuator"]
        while True:
            found = yield from call("GET", f"{URL}/v1/schedule", ScheduleReply, secret=token)
            if found.state == "ended":
                return
            if found.state == "playing" and found.played < found.rounds:
                for played in sorted({(found.played + found.rounds) // 2, found.rounds}):
                    body = RoundsRequest(phase=found.phase, attempt=found.attempt, played=played)
                    yield from call("POST", f"{URL}/v1/rounds", ScheduleReply, secret=token, body=body)
            else:
                yield None


@dataclass
class Desk:
    """The state of the operator: codes that it wants, codes that it has, and what it has seen."""

    wanted: int = 0
    codes: list[str] = field(default_factory=list)
    status: StatusReply | None = None
    released: dict[int, tuple[int, bytes]] = field(default_factory=dict)


class Operator(Actor):
    """The operator. It requests codes, polls the status, and checks that no release changes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        super().__init__()

    def live(self) -> Life:
        desk = self._desk
        while True:
            if desk.wanted:
                body = EnrolmentRequest(count=desk.wanted)
                desk.codes += (yield from self._ask("POST", "enrolments", EnrolmentReply, body)).codes
                desk.wanted = 0
            results: ResultsReply = yield from self._ask("GET", "results", ResultsReply)
            for one in results.phases:
                seen = (one.attempt, bytes(one.release))
                if desk.released.setdefault(one.phase, seen) != seen:
                    raise AssertionError(f"phase {one.phase} was released twice")
            desk.status = yield from self._ask("GET", "status", StatusReply)
            yield None

    def _ask(self, method: str, name: str, kind: Any, body: Any = None) -> Any:
        return call(method, f"{URL}/v1/{name}", kind, secret=TOKENS["operator"], body=body)
