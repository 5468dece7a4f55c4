"""The reference agent: takes part in a study from enrolment to the one report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from dpbandits.checks import whole
from dpbandits.errors import InvalidValue, Refused
from dpbandits.protocol import Plan
from dpbandits.service.client import AsyncClient, Client
from dpbandits.service.messages import TaskReply

Averages = Callable[[Plan], Sequence[float]]
"""The client's own averages of a plan's supported actions, once the plan was played."""

DONE = ("over", "ended")


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
    """Enrol, wait to be asked, answer once; whether an answer was accepted."""
    await client.enrol(code)
    for _ in range(patience):
        task = await client.task()
        if task.state in DONE:
            return task.reported
        if task.state == "report":
            return await _answered(client, averages)
        await asyncio.sleep(task.poll_seconds)
    return False


async def _answered(client: AsyncClient, averages: Averages) -> bool:
    assert client.core.plan is not None
    try:
        await client.report(averages(client.core.plan))
    except Refused as refusal:
        return _too_late(refusal)
    return True


def take_part_in_turn(client: Client, code: str, averages: Averages, *, patience: int = 100_000) -> bool:
    """The same, synchronously."""
    client.enrol(code)
    for _ in range(patience):
        task: TaskReply = client.task()
        if task.state in DONE:
            return task.reported
        if task.state == "report":
            assert client.core.plan is not None
            try:
                client.report(averages(client.core.plan))
            except Refused as refusal:
                return _too_late(refusal)
            return True
        time.sleep(task.poll_seconds)
    return False


def _too_late(refusal: Refused) -> bool:
    """A report that comes after the end does not count, and is no error."""
    if refusal.reason != "closed":
        raise refusal
    return False
