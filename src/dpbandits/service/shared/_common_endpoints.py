"""Endpoints of both coordinator and shuffler: reports, health, readiness, metrics, OpenAPI document."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.responses import Response

from dpbandits.errors import Refused
from dpbandits.rounds import check_accepted
from dpbandits.service.shared._bodies import Bodies
from dpbandits.service.shared._decryption import Opener
from dpbandits.service.shared._endpoint import Call, Endpoint, Guard, endpoint
from dpbandits.service.shared._endpoints import application
from dpbandits.service.shared._metrics import Metrics
from dpbandits.service.shared._openapi import description
from dpbandits.service.shared._rates import Rates
from dpbandits.service.shared._settings import Limits, RoleTokens
from dpbandits.service.shared._writer import Result, Writer
from dpbandits.service.wire import KeyPair, ReportSlot, hashed
from dpbandits.storage import UNKNOWN, Transaction

_READY = 5.0  # seconds that the store has to respond
_LONGEST_STEP = 300.0  # seconds of one step, such as closing a large cohort, in which a party is still ready

ATTEMPT = "/v1/phases/{phase}/attempts/{attempt}"


class Served(ABC):
    """The base class of a party's HTTP handlers; they reach the store through a writer.

    Args:
        writer: Runs transactions in the writer thread.
        metrics: The party's Prometheus metrics.
        keys: The private key that reports for this party are sealed to.
    """

    def __init__(self, writer: Writer, metrics: Metrics, keys: KeyPair) -> None:
        self.writer = writer
        self.metrics = metrics
        self.opener = Opener(keys)

    @abstractmethod
    async def slot(self, call: Call) -> ReportSlot:
        """Return the slot of a received report.

        Args:
            call: The request.

        Raises:
            Refused: The request does not fit a report that is due.
        """

    async def reports(self, call: Call) -> None:
        """Check and store a report; it is durable when this returns.

        A caller without a valid ticket gets `unknown-credential` and no other refusal. So a refusal reveals
        nothing about a study to a caller that does not take part in it.

        Args:
            call: The request.
        """
        try:
            slot = await self.slot(call)
            report = slot.received(call.body)
            slot.check(await self.opener.open(report.sealed, slot.place, slot.purpose))
        except Refused:
            await self.known_ticket(call.secret)
            raise
        outcome: str = await self.writer.run_async("report", report)
        accept(outcome)
        self.accepted(report.pseudonym)

    def accepted(self, pseudonym: str) -> None:  # noqa: B027 - a party may have nothing to do
        """Called after the report of a client was stored.

        Args:
            pseudonym: The client's pseudonym.
        """

    async def run(self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False) -> Result:
        """Run `work` in a transaction; it is durable when this returns.

        Args:
            name: The name of the step, for the writer's hook.
            work: What to do in the transaction.
            alone: Whether the transaction must not be shared with other requests.

        Returns:
            The result of `work`.
        """
        return await self.writer.run_async(name, work, alone=alone)

    async def known_ticket(self, ticket: str) -> None:
        """Check that a client of the study has this ticket.

        Args:
            ticket: The ticket.

        Raises:
            Refused: No client has it.
        """
        await self.authenticate(lambda t: t.entry_of(pseudonym=hashed(ticket)))

    async def authenticate(self, known: Callable[[Transaction], object]) -> None:
        """Check that the store has the caller's credential.

        Args:
            known: Looks the credential up; None if it is not known.

        Raises:
            Refused: `known` returned None.
        """
        if await self.run("read", known) is None:
            raise Refused("unknown-credential", "the credential is not known")


def accept(outcome: str) -> None:
    """Raise `Refused` unless the store accepted the report."""
    if outcome == UNKNOWN:
        raise Refused("unknown-credential", "the ticket is not known in this attempt")
    check_accepted(outcome)


def report_endpoint(served: Served, summary: str) -> Endpoint:
    """Return the endpoint that receives reports.

    Args:
        served: The handlers of the party.
        summary: The endpoint's summary in the OpenAPI document.

    Returns:
        The endpoint; put it first in the table, because reports are the most frequent requests.
    """
    route = f"POST {ATTEMPT}/reports"
    return endpoint(route, "ticket", served.reports, summary, takes=bytes, refusals=(409, 410), browsers=True)


def common_endpoints(title: str, served: Served, others: list[Endpoint]) -> list[Endpoint]:
    """Return a party's own endpoints followed by those that every party has.

    Args:
        title: The title of the OpenAPI document.
        served: The handlers of the party.
        others: The party's own endpoints.

    Returns:
        All endpoints of the party.
    """

    async def health(_call: Call) -> Response:
        return Response("alive\n", media_type="text/plain")

    async def ready(_call: Call) -> Response:
        try:
            await asyncio.wait_for(served.run("read", lambda transaction: transaction.latest()), _READY)
        except Exception as error:
            step = served.writer.long_step
            if not isinstance(error, TimeoutError) or step is None or step > _LONGEST_STEP:
                raise Refused("unavailable", "the store does not respond") from None
        return Response("ready\n", media_type="text/plain")

    async def metrics(_call: Call) -> Response:
        return Response(served.metrics.text(), media_type="text/plain")

    described: dict[str, Any] = {}

    async def openapi(_call: Call) -> Response:
        return Response(msgspec.json.encode(described), media_type="application/json")

    endpoints = [
        *others,
        endpoint("GET /healthz", None, health, "Liveness", gives=str),
        endpoint("GET /readyz", None, ready, "Readiness", gives=str),
        endpoint("GET /metrics", "operator", metrics, "Metrics for Prometheus", gives=str),
        endpoint("GET /openapi.json", None, openapi, "This OpenAPI document", gives=dict, browsers=True),
    ]
    described.update(description(title, endpoints))
    return endpoints


def party_app(
    title: str,
    served: Served,
    others: list[Endpoint],
    roles: RoleTokens,
    limits: Limits | None,
    *,
    begin: Callable[[], None] = lambda: None,
    ends: Sequence[Callable[[], None]],
) -> Starlette:
    """Build the HTTP application of a party.

    Args:
        title: The title of the OpenAPI document.
        served: The handlers of the party.
        others: The party's own endpoints.
        roles: The hashed tokens of the roles.
        limits: Limits on requests; the defaults of `Limits` if not given.
        begin: Called when the server starts.
        ends: Called in this order when the server shuts down, after open requests were answered.

    Returns:
        The ASGI application.
    """
    limits = limits or Limits()
    guard = Guard(
        roles=roles.by_hash(),
        limits=limits,
        rates=Rates(limits),
        metrics=served.metrics,
        bodies=Bodies(limits.all_body_bytes),
        trusted_bodies=Bodies(limits.trusted_body_bytes),  # so one of the largest bodies is always admitted
        known=served.known_ticket,
    )

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        begin()
        yield
        await served.opener.close()
        for end in ends:
            await asyncio.to_thread(end)

    return application(common_endpoints(title, served, others), guard, lifespan=lifespan)
