"""The reference agent: takes part in a study from enrolment to the one report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue, Refused, Unreachable
from dpbandits.protocol import Plan
from dpbandits.service.client._client import AsyncClient, Client, ClientCore

Averages = Callable[[Plan], Sequence[float]]
"""The client's own averages of a plan's supported actions, once the plan was played."""

DONE = ("over", "ended")
_UNREACHED = 1.0  # seconds to wait for a party that was never reached


class Recorder:
    """Running averages of the rewards of a plan's actions, one reward for each play."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._places = {action: place for place, action in enumerate(plan.support)}
        self._totals = [0.0] * len(plan.support)
        self._counts = [0] * len(plan.support)

    def record(self, action: int, reward: float) -> None:
        """A reward of an action that was just played."""
        if action not in self._places:
            raise InvalidValue("action", action, "one of the plan's")
        place = self._places[action]
        whole(1, self._plan.plays[place], rewards=self._counts[place] + 1)
        self._totals[place] += float(reward)
        self._counts[place] += 1

    @property
    def complete(self) -> bool:
        """Whether every play was recorded."""
        return tuple(self._counts) == self._plan.plays

    def averages(self) -> list[float]:
        """Of each supported action."""
        if not self.complete:
            raise InvalidValue("rewards", tuple(self._counts), f"{self._plan.plays}, one for each play")
        return [total / count for total, count in zip(self._totals, self._counts, strict=True)]


async def take_part(client: AsyncClient, code: str, averages: Averages, *, patience: int = 100_000) -> bool:
    """Enrol, wait to be asked, answer once; whether an answer was accepted.

    A party that cannot be reached is tried again while the attempt is open, `patience` times at most.
    """
    seconds = _UNREACHED
    for _ in range(patience):
        try:
            await client.enrol(code)
            task = await client.task()
            if task.state == "report":
                await client.report(averages(_plan(client.core)))
                return True
        except Unreachable as error:
            client.core.trouble = str(error)
            await asyncio.sleep(seconds)
            continue
        except Refused as refusal:
            return _too_late(refusal)
        if task.state in DONE:
            return task.reported
        seconds = task.poll_seconds
        await asyncio.sleep(seconds)
    return False


def take_part_in_turn(client: Client, code: str, averages: Averages, *, patience: int = 100_000) -> bool:
    """The same, synchronously."""
    seconds = _UNREACHED
    for _ in range(patience):
        try:
            client.enrol(code)
            task = client.task()
            if task.state == "report":
                client.report(averages(_plan(client.core)))
                return True
        except Unreachable as error:
            client.core.trouble = str(error)
            time.sleep(seconds)
            continue
        except Refused as refusal:
            return _too_late(refusal)
        if task.state in DONE:
            return task.reported
        seconds = task.poll_seconds
        time.sleep(seconds)
    return False


def _plan(core: ClientCore) -> Plan:
    if core.plan is None:
        raise Refused("not-asked", "this client has no task")
    return core.plan


def _too_late(refusal: Refused) -> bool:
    """A report that comes after the end does not count, and is no error."""
    if refusal.reason != "closed":
        raise refusal
    return False
