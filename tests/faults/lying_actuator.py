"""An actuator with a valid token that claims false numbers of rounds, in addition to the honest actuator."""

from __future__ import annotations

import random
from collections.abc import Generator

import msgspec

from dpbandits.service.shared import call
from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import RoundsRequest, ScheduleReply

from .actors import URL, Actor, Life
from .lies import Fault
from .party import TOKENS


class LyingPlayer(Actor):
    """Claims false numbers of rounds, between the claims of the honest actuator."""

    def __init__(self, faults: list[Fault]) -> None:
        self.met: list[str] = []
        self._faults = sorted(faults, key=lambda fault: fault.at)
        super().__init__()

    def live(self) -> Life:
        for fault in self._faults:
            found: ScheduleReply = yield from self._schedule()
            while found.state == "beginning":
                yield None
                found = yield from self._schedule()
            yield from self._claim(fault, found)
            yield None

    def _schedule(self) -> Generator[Outgoing, Incoming, ScheduleReply]:
        return (yield from call("GET", f"{URL}/v1/schedule", ScheduleReply, secret=TOKENS["actuator"]))

    def _claim(self, fault: Fault, found: ScheduleReply) -> Life:
        phase, attempt, rounds = found.phase, found.attempt, found.rounds
        dice = random.Random(f"{fault}")
        content, allowed = {
            "negative": ((phase, attempt, -dice.randint(1, 10**6)), (422,)),
            "huge": ((phase, attempt, dice.choice((10**15 + 1, 2**63, 2**64, 1e300))), (422,)),
            "no-number": ((phase, attempt, dice.choice((None, "1", [], 1.5, True))), (422,)),
            "too-many": ((phase, attempt, rounds + dice.randint(1, 10**6)), (200, 422)),
            "fewer": ((phase, attempt, dice.randint(0, found.played)), (200,)),
            "future": ((phase + dice.randint(5, 100), 1, rounds), (409,)),
            "other-attempt": ((phase, attempt + dice.randint(100, 900), rounds), (200, 409)),
            "past": ((max(1, phase - 1), 1, rounds), (200, 409, 422)),
        }[fault.step]  # fmt: skip
        body = dict(zip(RoundsRequest.__struct_fields__, content, strict=True))
        if fault.step == "past" and (max(1, phase - 1), 1) == (phase, attempt):
            return
        reply = yield Outgoing(
            method="POST",
            url=f"{URL}/v1/rounds",
            secret=TOKENS["actuator"],
            content=msgspec.json.encode(body),
        )
        assert reply is not None
        if reply.status not in allowed:
            raise AssertionError(f"the claim {fault.step} of {content} was answered with {reply.status}")
        if reply.status == 200:
            self._unchanged(found, msgspec.json.decode(reply.content, type=ScheduleReply))
        self.met.append(f"actuator-lie: {fault.step}")

    def _unchanged(self, before: ScheduleReply, after: ScheduleReply) -> None:
        same = (before.phase, before.attempt) == (after.phase, after.attempt)
        if (after.phase, after.attempt) < (before.phase, before.attempt) or (
            same and after.played < before.played
        ):
            raise AssertionError("a claim of the actuator reduced the number of rounds")
        if after.played > after.rounds:
            raise AssertionError("more rounds were counted than the plan has")
