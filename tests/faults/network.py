"""A network that loses, duplicates, delays, reorders, truncates and replays requests, and records replies."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import TaskReply, hashed

from .claims import Claims
from .faults import MESSAGE_KINDS, Case
from .party import Delivery
from .values import second_part

_REPORT = re.compile(r"/v1/phases/(\d+)/attempts/(\d+)/reports$")

Deliver = Callable[[str, list[Delivery], bool], list[Incoming | None]]


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A report that was acknowledged: its phase and attempt, its digest, and bytes that only it contains."""

    phase: int
    attempt: int
    digest: str
    traces: tuple[bytes, ...]


@dataclass
class Network:
    """The network of a run.

    Attributes:
        case: The run, with the faults of messages.
        deliver: Delivers requests to a party, all at the same time. A party that is down returns None.
        claims: What each body of a client must lead to.
        count: The number of messages so far.
        met: The faults that occurred.
        accepted: The reports that were acknowledged, by pseudonym.
        asked: The phase and attempt of each client that was asked, by token.
        problems: The problems of the replies.
        later: Requests that are still under way: when they are due, the party, and the request.
    """

    case: Case
    deliver: Deliver
    claims: Claims
    count: int = 0
    met: Counter[str] = field(default_factory=Counter)
    accepted: dict[str, Accepted] = field(default_factory=dict)
    asked: dict[str, tuple[int, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    later: list[tuple[int, str, Delivery]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._faults = {fault.at: fault for fault in self.case.faults if fault.kind in MESSAGE_KINDS}

    def send(self, party: str, sent: Sequence[Outgoing], *, step: bool = False) -> list[Incoming | None]:
        """Send requests at the same time, with delayed ones that are due; return a reply or None for each."""
        deliveries, heard = list[Delivery](), list[int | None]()
        for outgoing in sent:
            found, answered = self._fate(party, outgoing)
            heard.append(len(deliveries) if answered else None)
            deliveries += found
        deliveries += self._due(party)
        if not deliveries and not step:
            return [None] * len(sent)
        replies = self.deliver(party, deliveries, step)
        for delivery, reply in zip(deliveries, replies, strict=True):
            self._note(delivery, reply)
        return [None if place is None else replies[place] for place in heard]

    def _fate(self, party: str, outgoing: Outgoing) -> tuple[list[Delivery], bool]:
        """Return what arrives now of a request, and whether the sender gets the reply to the first copy."""
        whole, number = Delivery(outgoing=outgoing, body=outgoing.content), self.count
        self.count += 1
        fault = self._faults.get(number)
        if fault is None:
            return [whole], True
        self.met[fault.kind] += 1
        if fault.kind in ("reorder", "delay", "replay"):
            self.later.append((number + int(fault.value), party, whole))
            return ([whole], True) if fault.kind == "replay" else ([], False)
        if fault.kind == "truncate":
            short = outgoing.content[: int(fault.value * len(outgoing.content))]
            return [Delivery(outgoing=outgoing, body=short, cut=fault.step == "cut")], False
        copies = {"lose": 0, "lose-reply": 1, "duplicate": 2}[fault.kind]
        return [whole] * copies, fault.kind == "duplicate"

    def _due(self, party: str) -> list[Delivery]:
        due = [one for one in self.later if one[0] <= self.count and one[1] == party]
        self.later = [one for one in self.later if one not in due]
        return [delivery for _, _, delivery in due]

    def flush(self) -> None:
        """Deliver all requests that are still under way."""
        self.count = max([self.count, *(due for due, _, _ in self.later)])
        for party in sorted({party for _, party, _ in self.later}):
            self.send(party, ())

    def _note(self, delivery: Delivery, reply: Incoming | None) -> None:
        if reply is None:
            return
        path = delivery.outgoing.url.split("?")[0]
        if reply.status == 500:
            self.problems.append(f"{delivery.outgoing.method} {path} was answered with 500")
        if reply.status == 200 and path.endswith("/v1/tasks"):
            self._note_task(delivery.outgoing.secret, msgspec.json.decode(reply.content, type=TaskReply))
        found = _REPORT.search(path)
        if found is not None and reply.status == 204:
            self._note_report(delivery, int(found[1]), int(found[2]))

    def _note_task(self, secret: str, task: TaskReply) -> None:
        """Check that a client that was assigned to an attempt is never assigned to another."""
        place = (task.phase, task.attempt)
        known = self.asked.setdefault(secret, place) if task.phase else self.asked.get(secret, place)
        if known != place:
            self.problems.append(f"a client of attempt {known} was assigned to {place}")

    def _note_report(self, delivery: Delivery, phase: int, attempt: int) -> None:
        pseudonym = hashed(delivery.outgoing.secret)
        digest = hashlib.sha256(delivery.body).hexdigest()
        half = second_part(delivery.body, self.case.mode)
        traces = (delivery.body[:32], delivery.body[half : half + 32])
        report = Accepted(phase=phase, attempt=attempt, digest=digest, traces=traces)
        if self.claims.of(pseudonym, digest).fate == "refused":
            self.problems.append(f"a lie of {pseudonym[:8]} was accepted as its report")
        if self.accepted.setdefault(pseudonym, report) != report:
            self.problems.append(f"two reports of {pseudonym[:8]} were accepted")
