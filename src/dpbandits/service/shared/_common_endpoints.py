"""What coordinator and shuffler serve alike: reports, health, readiness, metrics, their own description."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import msgspec
from starlette.responses import Response

from dpbandits.errors import Refused
from dpbandits.rounds import check_accepted
from dpbandits.service.shared._decryption import Opener
from dpbandits.service.shared._endpoints import Call, Endpoint
from dpbandits.service.shared._metrics import Metrics
from dpbandits.service.shared._openapi import description
from dpbandits.service.shared._writer import Result, Writer
from dpbandits.service.wire import KeyPair, ReportSlot, hashed
from dpbandits.storage import UNKNOWN, Transaction

ATTEMPT = "/v1/phases/{phase}/attempts/{attempt}"


class Served(ABC):
    """Endpoints over a writer."""

    def __init__(self, writer: Writer, metrics: Metrics, keys: KeyPair) -> None:
        self.writer = writer
        self.metrics = metrics
        self.opener = Opener(keys)

    @abstractmethod
    async def slot(self, call: Call) -> ReportSlot:
        """Where a report that came to this party belongs, or a refusal."""

    async def reports(self, call: Call) -> None:
        """Take a report in; it is durable when this returns. Whoever has no ticket hears that and no more."""
        try:
            slot = await self.slot(call)
            report = slot.received(call.body)
            slot.check(await self.opener.open(report.sealed, slot.place, slot.purpose))
        except Refused:
            await self.authenticate(lambda t: t.entry_of(pseudonym=hashed(call.secret)))
            raise
        accept(await self.writer.take_async(report))

    async def run(self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False) -> Result:
        """In a transaction; answered when it is durable."""
        return await self.writer.run_async(name, work, alone=alone)

    async def authenticate(self, known: Callable[[Transaction], object]) -> None:
        """Refuse whoever the store does not know."""
        if await self.run("read", known) is None:
            raise Refused("unknown-credential", "no such credential")


def accept(outcome: str) -> None:
    """What taking a report in came to; everything but success is a refusal."""
    if outcome == UNKNOWN:
        raise Refused("unknown-credential", "no such ticket in this attempt")
    check_accepted(outcome)


def report_endpoint(served: Served, summary: str) -> Endpoint:
    """Where clients report."""
    return Endpoint(
        method="POST",
        path=f"{ATTEMPT}/reports",
        role="ticket",
        summary=summary,
        takes=bytes,
        gives=None,
        handler=served.reports,
        refusals=(409, 410),
    )


def common_endpoints(title: str, served: Served, others: list[Endpoint]) -> list[Endpoint]:
    """A party's own endpoints and those that every party has."""

    async def health(_call: Call) -> Response:
        return Response("alive\n", media_type="text/plain")

    async def ready(_call: Call) -> Response:
        try:
            await asyncio.wait_for(served.run("read", lambda transaction: transaction.latest()), 5)
        except Exception:
            raise Refused("unavailable", "the store does not answer") from None
        return Response("ready\n", media_type="text/plain")

    async def metrics(_call: Call) -> Response:
        return Response(served.metrics.text(), media_type="text/plain")

    described: dict[str, Any] = {}

    async def openapi(_call: Call) -> Response:
        return Response(msgspec.json.encode(described), media_type="application/json")

    endpoints = [
        *others,
        Endpoint(method="GET", path="/healthz", role=None, summary="Alive?", gives=str, handler=health),
        Endpoint(method="GET", path="/readyz", role=None, summary="Can it work?", gives=str, handler=ready),
        Endpoint(
            method="GET",
            path="/metrics",
            role="operator",
            summary="For Prometheus",
            gives=str,
            handler=metrics,
        ),
        Endpoint(
            method="GET",
            path="/openapi.json",
            role=None,
            summary="This description",
            gives=dict,
            handler=openapi,
        ),
    ]
    described.update(description(title, endpoints))
    return endpoints
