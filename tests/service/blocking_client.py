"""A client for tests without an event loop: each call returns when the reply is there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from dpbandits.service.client import ClientCore, take_part
from dpbandits.service.client._agent import Averages
from dpbandits.service.shared import Transport
from dpbandits.service.wire import TaskReply


class Client:
    """Each method carries out the `ClientCore` dialogue of the same name."""

    def __init__(self, core: ClientCore, transport: Transport) -> None:
        self.core = core
        self._transport = transport

    def agree(self) -> None:
        self._transport.hold(self.core.agree())

    def enrol(self, code: str) -> None:
        self._transport.hold(self.core.enrol(code))

    def task(self) -> TaskReply:
        return self._transport.hold(self.core.task())

    def report(self, averages: Sequence[float]) -> None:
        self._transport.hold(self.core.report(averages))


class _Awaited:
    """The same client with methods that `take_part` can await."""

    def __init__(self, client: Client) -> None:
        self.core = client.core
        self._client = client

    async def enrol(self, code: str) -> None:
        self._client.enrol(code)

    async def task(self) -> TaskReply:
        return self._client.task()

    async def report(self, averages: Sequence[float]) -> None:
        self._client.report(averages)


def take_part_in_turn(client: Client, code: str, averages: Averages, **limits: Any) -> bool:
    """Run the agent to its end."""
    return asyncio.run(take_part(_Awaited(client), code, averages, **limits))  # type: ignore[arg-type]
