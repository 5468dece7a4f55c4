"""The reference agent: it takes part in a study for one client, from enrolment to the client's one report.

`take_part` runs the agent in an event loop. `Recorder` averages the rewards that the client observes.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from dpbandits._checks import at_least_zero_below_one, whole
from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue, Refused, Unreachable
from dpbandits.protocol import Plan
from dpbandits.service.client._client import AsyncClient, ClientCore
from dpbandits.service.wire import TaskReply

Averages = Callable[[Plan], Sequence[float]]
"""A function that plays a plan and returns the average reward of each of its supported actions."""

DONE = ("over", "ended")  # the states of a task in which a client stops polling
_VARIED = (0.75, 1.25)  # factors of the polling interval, so that clients do not poll at the same time
_UNREACHED = 1.0  # seconds between polls until the coordinator has sent its own polling interval


class Recorder:
    """Running averages of the rewards of a plan's actions, with one reward per play.

    Example: if the plan plays action 3 twice, `record(3, 0.2)` and `record(3, 0.4)` give the average 0.3.

    A client may miss plays, for example while it is offline. It may then report the averages over the plays
    that it has seen, if missing a play did not depend on its reward. Such averages have the same mean as
    averages over all plays, but vary more. So intervals have to be wider: docs/deploying.md, Missed plays,
    says by how much. A client that has seen no play of an action cannot report.

    Args:
        plan: The plan.
        allowed_loss: The largest share of the plays of an action that may be missed. With 0, every play needs
            a reward.
        rewards: The range to which single rewards are clipped (`ClientCore.rewards`); None for no clipping.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.service.client import Recorder
        >>> plan = examples.plan()
        >>> recorder = Recorder(plan)
        >>> for action, plays in zip(plan.support, plan.plays):
        ...     for _ in range(plays):
        ...         recorder.record(action, 0.5)
        >>> recorder.complete, recorder.averages()
        (True, [0.5, 0.5])
    """

    def __init__(self, plan: Plan, *, allowed_loss: float = 0.0, rewards: RewardRange | None = None) -> None:
        self._rewards = rewards
        self._allowed = at_least_zero_below_one(allowed_loss=allowed_loss)
        self._plan = plan
        self._places = {action: place for place, action in enumerate(plan.support)}
        self._totals = [0.0] * len(plan.support)
        self._counts = [0] * len(plan.support)

    def record(self, action: int, reward: float) -> None:
        """Record the reward of one play of an action.

        Args:
            action: The index of the action, one of the plan's supported actions.
            reward: The observed reward.

        Raises:
            InvalidValue: The plan does not play this action, or all its plays were already recorded.
        """
        if action not in self._places:
            raise InvalidValue("action", action, f"one of the plan's actions, {self._plan.support}")
        place = self._places[action]
        whole(1, self._plan.plays[place], rewards=self._counts[place] + 1)
        own = self._rewards
        self._totals[place] += float(reward) if own is None else own.clipped(float(reward))
        self._counts[place] += 1

    @property
    def complete(self) -> bool:
        """Whether a reward was recorded for every play of the plan."""
        return tuple(self._counts) == self._plan.plays

    @property
    def missed(self) -> dict[int, int]:
        """The number of missing plays of each action that has any."""
        counted = zip(self._plan.support, self._plan.plays, self._counts, strict=True)
        return {action: plays - count for action, plays, count in counted if count < plays}

    @property
    def loss(self) -> float:
        """The largest share of the plays of an action that is missing."""
        counted = zip(self._plan.plays, self._counts, strict=True)
        return max((plays - count) / plays for plays, count in counted)

    @property
    def enough(self) -> bool:
        """Whether `averages` accepts what was recorded."""
        return self.loss <= self._allowed

    def averages(self) -> list[float]:
        """Return the average reward of each supported action, in the order of the plan.

        Raises:
            InvalidValue: More plays of an action are missing than `allowed_loss` allows. The message says how
                many plays of which actions are missing.
        """
        if not self.enough:
            allowed = f"at most {self._allowed:.0%} of the plays of each action missing"
            expected = f"one reward per play, or {allowed} (allowed_loss)"
            lost = ", ".join(f"{number} of action {action}" for action, number in self.missed.items())
            raise InvalidValue("rewards", f"none for {lost}", expected)
        return [total / count for total, count in zip(self._totals, self._counts, strict=True)]


async def take_part(client: AsyncClient, code: str, averages: Averages, *, patience: int = 100_000) -> bool:
    """Enrol, wait until the coordinator asks for a report, and send one.

    If a party cannot be reached, the agent tries again later.

    Args:
        client: The client that takes part.
        code: The client's one-time enrolment code.
        averages: Plays the plan and returns the average reward of each supported action. It is called again
            if the report could not be sent. A report that has been sealed is sent again unchanged.
        patience: The largest number of polls and retries.

    Returns:
        True if a report was accepted. False if the attempt or the study ended first, or `patience` ran out.

    Raises:
        Refused: The client does not consent to the terms or the plan, or a party refused a request.

    Example:
        >>> import asyncio
        >>> from dpbandits.service.client import AsyncClient, ClientCore, take_part
        >>> from dpbandits.service.shared import AsyncTransport, Backoff
        >>> async def main(url, code):
        ...     async with AsyncTransport(patience=Backoff(tries=1)) as transport:
        ...         client = AsyncClient(ClientCore(url=url), transport)
        ...         return await take_part(client, code, lambda plan: [0.5] * len(plan.support), patience=0)
        >>> asyncio.run(main("http://127.0.0.1:9", "a code from the operator"))
        False
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
            return _accepted(client.core, task)
        seconds = task.poll_seconds * random.uniform(*_VARIED)
        await asyncio.sleep(seconds)
    return False


def _accepted(core: ClientCore, task: TaskReply) -> bool:
    """Return whether a report was accepted. In the shuffle model only the client knows, from status 204."""
    return core.memory.sent if task.reported is None else task.reported


def _plan(core: ClientCore) -> Plan:
    if core.plan is None:
        raise Refused("not-asked", "this client was not asked for a report")
    return core.plan


def _too_late(refusal: Refused) -> bool:
    """Return False if the attempt is closed: a report that is too late is not an error. Otherwise raise."""
    if refusal.reason != "closed":
        raise refusal
    return False
