"""The shuffler's HTTP application: clients send reports, and the coordinator opens and closes collections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.applications import Starlette

from dpbandits.errors import Refused
from dpbandits.service.shared import (
    ATTEMPT,
    Call,
    Endpoint,
    Guard,
    Limits,
    Metrics,
    Rates,
    Roles,
    Served,
    application,
    common_endpoints,
    report_endpoint,
)
from dpbandits.service.shuffler._shuffler import Shuffler
from dpbandits.service.wire import (
    CollectionReply,
    CollectionRequest,
    KeyReply,
    ReportSlot,
    SharesReply,
    SumsRequest,
)


class ShufflerService(Served):
    """The HTTP handlers; each calls the method of `Shuffler` that does the work."""

    def __init__(self, shuffler: Shuffler, metrics: Metrics) -> None:
        super().__init__(shuffler.writer, metrics, shuffler.context.keys)
        self._shuffler = shuffler

    async def key(self, _call: Call) -> KeyReply:
        """Return the public key that reports are sealed to, and the mode."""
        context = self._shuffler.context
        return KeyReply(key=str(context.keys.public), mode=context.mode)

    async def open(self, call: Call) -> CollectionReply:
        """Open a collection for the coordinator."""
        request: CollectionRequest = call.body
        opening = await asyncio.to_thread(self._shuffler.checked, call.phase, request)
        work = self._shuffler.open
        return await self.run("open", lambda t: work(t, call.phase, call.attempt, opening), alone=True)

    async def look(self, call: Call) -> CollectionReply:
        """Return the state of a collection."""
        return await self.run("read", lambda t: self._shuffler.look(t, call.phase, call.attempt))

    async def close(self, call: Call) -> CollectionReply:
        """Close a collection for the coordinator."""
        work = self._shuffler.close
        reply = await self.run("close", lambda t: work(t, call.phase, call.attempt), alone=True)
        await asyncio.to_thread(self._shuffler.store.forget)
        return reply

    async def shares(self, call: Call) -> SharesReply:
        """Return one page of the coordinator's sealed shares."""
        after = call.query["after"]
        return await self.run("read", lambda t: self._shuffler.shares(t, call.phase, call.attempt, after))

    async def sums(self, call: Call) -> CollectionReply:
        """Return the sums of the shuffler's shares, in split mode."""
        request: SumsRequest = call.body
        work = self._shuffler.sums
        reply = await self.run(
            "sums", lambda t: work(t, call.phase, call.attempt, request.without), alone=True
        )
        await asyncio.to_thread(self._shuffler.store.forget)
        return reply

    async def slot(self, call: Call) -> ReportSlot:
        """Return the slot for a client's report, or for both its shares."""
        known = self._shuffler.known_plan(call.phase)
        if known is None:
            known = await self.run("read", lambda t: self._shuffler.load_plan(t, call.phase))
        if known is None:
            raise Refused("not-found", "no such phase")
        return self._shuffler.slot(known, call.attempt, call.secret)


def shuffler_app(shuffler: Shuffler, roles: Roles, limits: Limits | None = None) -> Starlette:
    """Return the shuffler's application. It closes the shuffler and its store when the server shuts down.

    Args:
        shuffler: The shuffler.
        roles: The hashes of the tokens of operator and coordinator.
        limits: The limits on requests; by default `Limits()`.

    Returns:
        The ASGI application.
    """
    metrics, limits = Metrics(), limits or Limits()
    served = ShufflerService(shuffler, metrics)
    endpoints = common_endpoints("dpbandits shuffler", served, shuffler_endpoints(served))
    guard = Guard(roles=roles.hashes, limits=limits, rates=Rates(limits), metrics=metrics)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        yield
        await served.opener.close()
        await asyncio.to_thread(shuffler.close_store)

    return application(endpoints, guard, lifespan=lifespan)


def shuffler_endpoints(served: ShufflerService) -> list[Endpoint]:
    """Return the endpoints of version 1 of the API. Reports come first, because routes are tried in order."""
    return [*_for_clients(served), *_for_the_coordinator(served), *_of_a_split(served)]


def _for_clients(served: ShufflerService) -> list[Endpoint]:
    """Return the endpoints for clients: sending a report, and the public key that it is sealed to."""
    return [
        report_endpoint(served, "Send the one report, or both its shares, sealed"),
        Endpoint(
            method="GET",
            path="/v1/key",
            role=None,
            summary="The public key that reports are sealed to",
            gives=KeyReply,
            handler=served.key,
        ),
    ]


def _for_the_coordinator(served: ShufflerService) -> list[Endpoint]:
    """Return the coordinator's endpoints that open, query and close a collection."""
    return [
        Endpoint(
            method="PUT",
            path=f"{ATTEMPT}/collection",
            role="coordinator",
            summary="Open a collection for a cohort",
            takes=CollectionRequest,
            gives=CollectionReply,
            handler=served.open,
            refusals=(409,),
        ),
        Endpoint(
            method="GET",
            path=f"{ATTEMPT}/collection",
            role="coordinator",
            summary="The state of a collection",
            gives=CollectionReply,
            handler=served.look,
        ),
        Endpoint(
            method="POST",
            path=f"{ATTEMPT}/collection/close",
            role="coordinator",
            summary="Close a collection, and return the sums or that there are too few reports",
            gives=CollectionReply,
            handler=served.close,
        ),
    ]


def _of_a_split(served: ShufflerService) -> list[Endpoint]:
    """Return the coordinator's further endpoints in split mode, where each report has two shares."""
    return [
        Endpoint(
            method="GET",
            path=f"{ATTEMPT}/collection/shares",
            role="coordinator",
            summary="The coordinator's shares, still sealed",
            query=("after",),
            gives=SharesReply,
            handler=served.shares,
            refusals=(409, 422),
        ),
        Endpoint(
            method="POST",
            path=f"{ATTEMPT}/collection/sums",
            role="coordinator",
            summary="The sums of the shuffler's shares",
            takes=SumsRequest,
            gives=CollectionReply,
            handler=served.sums,
            refusals=(409,),
        ),
    ]
