"""Clients that lie: they have valid codes and tokens, and send what no honest client sends.

A lying client behaves like an honest one until it is asked to report. Before it sends a body, it records in
`Claims` what must happen: the body is refused, left out, or counted with a known content. After a lie that
must be refused, half of the liars also send their honest report, which must still be accepted.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator
from dataclasses import replace

import msgspec

from dpbandits.errors import InvalidValue, Refused
from dpbandits.protocol import Plan, Report, respond_with_averages
from dpbandits.service.client._agent import DONE
from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import (
    ClientRequest,
    KeyPair,
    Place,
    ProvedReports,
    PublicKey,
    ReportSlot,
    TaskReply,
    TaskRequest,
    bound_share,
    hashed,
    split_shares,
)
from tests.service.helpers import client_averages, client_noise, sealed_body
from tests.service.lying_proofs import HARMLESS, LIES, lying_body

from .actors import URL, Life, Person
from .claims import Claim, Claims
from .lies import Fault
from .party import Site
from .values import outside_modulus, outside_range

REFUSED = Claim(fate="refused")
LEFT_OUT = Claim(fate="left-out")
Asked = Generator[Outgoing | None, Incoming | None, Incoming]
Lie = Generator[Outgoing | None, Incoming | None, bool]
"""Requests; returns whether the lie was refused, so that the honest report may follow."""
GARBAGE = (
    b"", b"{", b"[]", b'"x"', b"null", b'{"pseudonym":1}', b"\xff\xfe", b"[" * 3000,
    b'{"token":"' + b"0" * 63 + b'"}',
)  # fmt: skip


class Liar(Person):
    """A client that tells one lie."""

    def __init__(self, number: int, code: str, site: Site, fault: Fault, claims: Claims) -> None:
        self._site, self._fault, self._claims = site, fault, claims
        self._dice = random.Random(f"{fault}")
        self._told_early = False
        super().__init__(number, code, site, [])

    def live(self) -> Life:
        """Take part and tell the lie. Each lie checks the status that it expects."""
        try:
            yield from self._before()
            while True:
                yield from self.core.enrol(self._code)
                task = yield from self.core.task()
                if task.state == "report":
                    yield from self._report()
                    return
                if task.state in DONE:
                    return
                if task.state == "joined":
                    yield from self._while_joined()
                yield None
        except Refused as refusal:
            if refusal.reason not in ("closed", "already-reported"):
                raise

    @property
    def _plan(self) -> Plan:
        assert self.core.plan is not None
        return self.core.plan

    def _place(self) -> Place:
        memory = self.core.memory
        return Place(
            study=self._plan.study,
            phase=self._plan.phase,
            attempt=memory.attempt,
            plan=self._plan.digest,
            pseudonym=self.pseudonym,
        )

    def _honest(self) -> Report:
        averages = client_averages(self._study.actions, self._plan, self.pseudonym)
        return respond_with_averages(self._plan, averages, client_noise(self.pseudonym))

    def _made_up(self) -> Report:
        """Return a report that the mechanism computes from invented averages."""
        size = self._dice.choice((0.0, 1.0, -1.0, 1e6, -1e6))
        averages = [size or self._dice.uniform(-2, 2) for _ in self._plan.support]
        return respond_with_averages(self._plan, averages, client_noise(hashed(f"{self._dice.random()}")))

    def _sealed(self, report: Report, place: Place | None = None, token: str = "") -> bytes:
        keys, mode = self._site.keys, self._site.mode
        shuffler = None if mode is None else keys["shuffler"].public
        credential = hashed(token or self.core.memory.token)
        place = place or self._place()
        return sealed_body(
            self._plan, report, place, keys["coordinator"].public, shuffler, mode or "", credential
        )

    def _url(self, *, phase: int | None = None, attempt: int | None = None, party: str = "") -> str:
        memory, reader = self.core.memory, "coordinator" if self._site.mode is None else "shuffler"
        phase, attempt = phase or memory.phase, attempt or memory.attempt
        return f"http://{party or reader}/v1/phases/{phase}/attempts/{attempt}/reports"

    def _post(self, body: bytes, claim: Claim, *, url: str = "", ticket: str = "") -> Asked:
        ticket = ticket or self.core.memory.ticket
        self._claims.add(hashed(ticket), body, claim)
        reply = yield Outgoing(method="POST", url=url or self._url(), secret=ticket, content=body)
        assert reply is not None
        return reply

    def _expect(self, reply: Incoming, *statuses: int) -> None:
        if reply.status not in statuses:
            raise AssertionError(f"the lie {self._fault.step} was answered with {reply.status}")
        self.met.append(f"client-lie: {self._fault.step}")

    # Lies before the report.

    def _before(self) -> Life:
        if self._fault.step == "taken-name":
            yield from self.core.enrol(self._code)
            yield from self._join_as_another()

    def _join_as_another(self) -> Life:
        names = sorted(self._claims.heard)
        if not names:
            return
        reply = yield from self._task(self._dice.choice(names))
        self._expect(reply, 200, 409)
        if reply.status == 200 and msgspec.json.decode(reply.content, type=TaskReply).phase:
            raise AssertionError("a client joined under the pseudonym of another")

    def _task(self, pseudonym: str) -> Asked:
        content = msgspec.json.encode(TaskRequest(pseudonym=pseudonym))
        return (yield from self._say("tasks", self.core.memory.token, content))

    def _say(self, name: str, secret: str, content: bytes) -> Asked:
        reply = yield Outgoing(method="POST", url=f"{URL}/v1/{name}", secret=secret, content=content)
        assert reply is not None
        return reply

    def _while_joined(self) -> Life:
        """Report too early: refused, unless the collection opens in the meantime."""
        if self._fault.step == "early" and not self._told_early:
            self._told_early = True
            report = self._honest()
            reply = yield from self._post(self._sealed(report), Claim(report=report))
            self._expect(reply, 204, 401, 404, 410)

    # Lies instead of the report.

    def _report(self) -> Life:
        lie = self._fault.step.replace("-", "_")
        refused = yield from getattr(self, f"_lie_{lie}", self._lie_nothing)()
        if refused and self._dice.random() < 0.5:
            yield from self.core.report(client_averages(self._study.actions, self._plan, self.pseudonym))

    def _lie_nothing(self) -> Lie:
        """Do nothing: the lie was told before."""
        yield None
        return True

    def _unreadable(self, body: bytes, *statuses: int) -> Lie:
        self._expect((yield from self._post(body, REFUSED)), *(statuses or (422,)))
        return True

    def _lie_random(self) -> Lie:
        body = self._dice.randbytes(self._slot().body_size)
        return (yield from self._unreadable(body))

    def _lie_short(self) -> Lie:
        body = self._sealed(self._honest())
        return (yield from self._unreadable(body[: self._dice.randrange(1, len(body))]))

    def _lie_long(self) -> Lie:
        body = self._sealed(self._honest()) + self._dice.randbytes(self._dice.choice((1, 8, 5000)))
        return (yield from self._unreadable(body))

    def _lie_huge(self) -> Lie:
        return (yield from self._unreadable(bytes((1 << 20) + 1), 413))

    def _lie_empty(self) -> Lie:
        return (yield from self._unreadable(b""))

    def _lie_other_place(self) -> Lie:
        place, field = self._place(), self._dice.choice(("study", "phase", "attempt", "plan", "pseudonym"))
        other = {"phase": place.phase + 1, "attempt": place.attempt + 1}.get(field, "0" * 64)
        return (yield from self._unreadable(self._sealed(self._honest(), replace(place, **{field: other}))))

    def _lie_other_key(self) -> Lie:
        sealed = self._sealed(self._honest())
        first = KeyPair.new().public.seal(self._dice.randbytes(40), self._place(), "report")
        return (yield from self._unreadable((first + sealed)[: len(sealed)]))

    def _lie_stolen(self) -> Lie:
        """Send the body of another client with the liar's ticket."""
        if not self._claims.heard:
            return True
        return (yield from self._unreadable(self._dice.choice(sorted(self._claims.heard.values()))))

    def _lie_second(self) -> Lie:
        yield from self.core.report(client_averages(self._study.actions, self._plan, self.pseudonym))
        reply = yield from self._post(self._sealed(self._made_up()), REFUSED)
        self._expect(reply, 409, 410)
        return False

    def _lie_at_once(self) -> Lie:
        """Send two different reports at the same time: one of them counts."""
        first, second = self._honest(), self._made_up()
        other = self._claims.add(self.pseudonym, self._sealed(second), Claim(report=second))
        ticket = self.core.memory.ticket
        self.aside = [Outgoing(method="POST", url=self._url(), secret=ticket, content=other)]
        self._expect((yield from self._post(self._sealed(first), Claim(report=first))), 204, 409, 410)
        return False

    def _lie_second_name(self) -> Lie:
        self._expect((yield from self._task(hashed(f"{self._dice.random()}"))), 409)
        return True

    def _lie_pseudonym_ticket(self) -> Lie:
        """Use a pseudonym, which the parties know, as the ticket."""
        name = self._dice.choice([*sorted(self._claims.heard), self.pseudonym])
        body = self._sealed(self._made_up(), replace(self._place(), pseudonym=hashed(name)))
        self._expect((yield from self._post(body, REFUSED, ticket=name)), 401)
        return True

    def _lie_unknown_phase(self) -> Lie:
        url, status = self._dice.choice(
            ((self._url(phase=999), 404), (self._url(attempt=77), 422), (self._url(attempt=10**7), 404))
        )
        self._expect((yield from self._post(self._sealed(self._honest()), REFUSED, url=url)), status)
        return True

    def _lie_elsewhere(self) -> Lie:
        """Send a report of the shuffle model to the coordinator, which does not accept it."""
        url = self._url(party="coordinator")
        self._expect((yield from self._post(self._sealed(self._honest()), REFUSED, url=url)), 409)
        return True

    def _lie_other_code(self) -> Lie:
        """Use the code again with another token; then use a code that does not exist."""
        request = msgspec.json.encode(ClientRequest(token=hashed(f"{self._dice.random()}")))
        self._expect((yield from self._say("clients", self._code, request)), 409)
        self._expect((yield from self._say("clients", "x" * 43, request)), 401)
        return True

    def _lie_no_json(self) -> Lie:
        content = self._dice.choice(GARBAGE)
        self._expect((yield from self._say("tasks", self.core.memory.token, content)), 422)
        self._expect((yield from self._say("clients", self._code, content)), 422)
        return True

    # Lies that count. Their content is known to the checker.

    def _counted(self, body: bytes, claim: Claim) -> Lie:
        self._expect((yield from self._post(body, claim)), 204, 410)
        return False

    def _lie_averages(self) -> Lie:
        report = self._made_up()
        return (yield from self._counted(self._sealed(report), Claim(report=report)))

    def _lie_extreme(self) -> Lie:
        """Send the largest or the smallest report in range."""
        return (yield from self._plain(outside_range(self._plan, self._dice, inside=True)))

    def _lie_range(self) -> Lie:
        return (yield from self._plain(outside_range(self._plan, self._dice)))

    def _plain(self, data: bytes) -> Lie:
        """Send a report as bytes: it counts if it is in the mechanism's range, and is refused otherwise."""
        try:
            self._plan.asked_mechanism.message.unpack([data])
        except InvalidValue:
            if self._site.mode == "split":  # no party sees the report, so send a bad share
                return (yield from self._bad_share())
            if self._site.mode == "verified":  # nor here, and no proof of it holds
                return (yield from self._lie_proof())
            body = self._reader.seal(data, self._place(), "report")
            return (yield from self._unreadable(body))
        report = Report(plan=self._plan.digest, payload=data)
        return (yield from self._counted(self._sealed(report), Claim(report=report)))

    def _slot(self) -> ReportSlot:
        return ReportSlot(plan=self._plan, place=self._place(), mode=self._site.mode or "")

    @property
    def _reader(self) -> PublicKey:
        return self._site.keys["coordinator" if self._site.mode is None else "shuffler"].public

    def _lie_proof(self) -> Lie:
        """Send a report whose proof does not hold."""
        lie = self._dice.choice([one for one in LIES if one not in HARMLESS])
        keys = (self._site.keys["shuffler"].public, self._site.keys["coordinator"].public)
        credential = hashed(self.core.memory.token)
        body = lying_body(lie, self._plan, self._place(), self._honest().payload, keys, credential)
        return (yield from self._counted(body, LEFT_OUT))

    # Lies of the modes with shares.

    def _parts(self) -> tuple[bytes, bytes]:
        payload = self._honest().payload
        if self._site.mode == "split":
            return split_shares(self._plan, payload)
        return ProvedReports.of(self._plan, self._place()).parts(payload)

    def _halves(self, one: bytes, other: bytes, *, token: str = "", place: Place | None = None) -> bytes:
        keys, here = self._site.keys, self._place()
        bound = bound_share(other, place or here, hashed(token or self.core.memory.token))
        return keys["shuffler"].public.seal(one, here, "share-shuffler") + keys["coordinator"].public.seal(
            bound, place or here, "share-coordinator"
        )

    def _bad_share(self) -> Lie:
        """Send a number that is not a residue to the shuffler, which can see it."""
        _, other = split_shares(self._plan, self._honest().payload)
        return (yield from self._unreadable(self._halves(outside_modulus(self._plan, self._dice), other)))

    def _lie_residues(self) -> Lie:
        """Send arbitrary residues: nobody can detect that no mechanism computed them."""
        assert self._plan.mechanism is not None
        modulus, numbers = 1 << self._plan.mechanism.sum_bits, self._plan.numbers
        residues = tuple(
            self._dice.choice((0, modulus - 1, self._dice.randrange(modulus))) for _ in range(numbers)
        )
        first = [int.from_bytes(os.urandom(8), "little") % modulus for _ in residues]
        second = [(one - share) % modulus for one, share in zip(residues, first, strict=True)]
        one, other = (b"".join(share.to_bytes(8, "little") for share in shares) for shares in (first, second))
        return (yield from self._counted(self._halves(one, other), Claim(residues=residues)))

    def _lie_other_tag(self) -> Lie:
        one, other = self._parts()
        return (yield from self._counted(self._halves(one, other, token="another-token"), LEFT_OUT))

    def _lie_half_unreadable(self) -> Lie:
        one, other = self._parts()
        body = self._halves(one, other, place=replace(self._place(), attempt=99))
        if self._dice.random() < 0.5:
            size = len(body) - len(
                self._site.keys["shuffler"].public.seal(one, self._place(), "share-shuffler")
            )
            body = body[:-size] + self._dice.randbytes(size)
        return (yield from self._counted(body, LEFT_OUT))

    def _lie_half_range(self) -> Lie:
        """Send numbers that are no shares to the coordinator."""
        one, other = self._parts()
        split = self._site.mode == "split"
        far = outside_modulus(self._plan, self._dice) if split else self._dice.randbytes(len(other))
        return (yield from self._counted(self._halves(one, far), LEFT_OUT))
