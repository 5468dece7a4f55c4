"""Replies from memory to the polls of clients that have joined.

Most polls get the same reply as before: the client has joined, and its cohort waits for other clients or for
the actuator. When reports are due, all clients of the cohort poll within a few seconds. A client that has
joined an attempt stays in it, so this is remembered until its report is accepted or the attempt is over.

The latest attempt is read from the store once for many polls. It is read again after every change that this
process commits. Other workers and commands may change it, too, so it is used for at most a quarter of a
second. All other polls read the store: those of clients that may join, those of clients that have reported to
this worker, and those after the end of the attempt.

If another worker accepted a client's report, a reply from memory has `reported` false. This does no harm: the
client sends its report again, and the same report is accepted again.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from dpbandits.service.coordinator._participation import Participation
from dpbandits.service.shared import Writer
from dpbandits.service.wire import TaskReply, TaskRequest, hashed
from dpbandits.storage import Attempt

_FRESH = 0.25  # seconds for which the latest attempt is used without reading it again
_REMEMBERED = 50_000  # clients


class _Place(NamedTuple):
    """What a client has joined."""

    client: str
    phase: int
    attempt: int


class Polls:
    """The clients that have joined, and the latest attempt. Use it in the thread of the event loop only.

    Args:
        clients: Makes the replies.
        writer: Reads the latest attempt.
        clock: Returns the time in seconds; tests pass their own.
    """

    def __init__(
        self, clients: Participation, writer: Writer, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clients = clients
        self._writer = writer
        self._clock = clock
        self._places: OrderedDict[str, _Place] = OrderedDict()  # by the pseudonym
        self._latest: Attempt | None = None
        self._version, self._until = -1, 0.0
        self._reading: asyncio.Future[Attempt | None] | None = None

    async def reply(self, secret: str, request: TaskRequest) -> TaskReply | None:
        """Return the task of a client from memory; None if the store has to be read.

        Args:
            secret: The client's token.
            request: Its request.
        """
        place = self._places.get(request.pseudonym)
        if place is None or place.client != hashed(secret):
            return None
        latest = await self._read()
        if latest is None or (latest.phase, latest.number) != (place.phase, place.attempt):
            self.forget(request.pseudonym)
            return None
        return self._clients.still_in_cohort(latest, request.have)

    def learn(self, secret: str, request: TaskRequest, reply: TaskReply) -> None:
        """Remember a client that has joined and not reported, from a reply that is committed."""
        in_cohort = reply.state in ("joined", "report") and not reply.reported
        if in_cohort and reply.phase is not None and reply.attempt is not None:
            self._places[request.pseudonym] = _Place(hashed(secret), reply.phase, reply.attempt)
            if len(self._places) > _REMEMBERED:
                self._places.popitem(last=False)

    def forget(self, pseudonym: str) -> None:
        """Forget a client: its report was accepted, or its attempt is over. Its next poll reads the store."""
        self._places.pop(pseudonym, None)

    async def _read(self) -> Attempt | None:
        if self._version == self._writer.changes and self._clock() < self._until:
            return self._latest
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read_again())
        return await asyncio.shield(self._reading)

    async def _read_again(self) -> Attempt | None:
        try:
            version = self._writer.changes  # before the read: what is committed meanwhile is read again
            self._latest = await self._writer.run_async("read", lambda transaction: transaction.latest())
            self._version, self._until = version, self._clock() + _FRESH
            return self._latest
        finally:
            self._reading = None
