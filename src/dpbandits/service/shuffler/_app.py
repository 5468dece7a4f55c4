"""The shuffler's HTTP application: clients send reports, and the coordinator opens and closes collections."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette

from dpbandits.errors import Refused
from dpbandits.service.shared import (
    ATTEMPT,
    Call,
    Endpoint,
    Limits,
    Metrics,
    RoleTokens,
    Served,
    endpoint,
    party_app,
    report_endpoint,
)
from dpbandits.service.shuffler._shuffler import Shuffler
from dpbandits.service.shuffler._statement import statement
from dpbandits.service.wire import (
    CollectionReply,
    CollectionRequest,
    KeyReply,
    ReportSlot,
    SharesReply,
    StatementReply,
    SumsRequest,
    VerifiersReply,
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
        checked = await asyncio.to_thread(self._shuffler.checked, call.phase, request)
        work = self._shuffler.open
        return await self.run("open", lambda t: work(t, call.phase, call.attempt, checked), alone=True)

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

    async def verifiers(self, call: Call) -> VerifiersReply:
        """Return one page of the coordinator's sealed parts with the shuffler's verifier shares."""
        after = call.query["after"]
        page = await self.run("read", lambda t: self._shuffler.page(t, call.phase, call.attempt, after))
        return await asyncio.to_thread(self._shuffler.verifiers, page)

    async def sums(self, call: Call) -> CollectionReply:
        """Return the sums of the shuffler's shares, in the modes `split` and `verified`."""
        request: SumsRequest = call.body
        work = self._shuffler.sums
        reply = await self.run(
            "sums", lambda t: work(t, call.phase, call.attempt, request.without), alone=True
        )
        await asyncio.to_thread(self._shuffler.store.forget)
        return reply

    async def statement(self, _call: Call) -> StatementReply:
        """Return what the shuffler saw and revealed, signed."""
        return await self.run("read", lambda t: statement(self._shuffler, t))

    async def slot(self, call: Call) -> ReportSlot:
        """Return the slot for a client's report, or for both its shares."""
        known = self._shuffler.known_plan(call.phase)
        if known is None:
            known = await self.run("read", lambda t: self._shuffler.load_plan(t, call.phase))
        if known is None:
            raise Refused("not-found", "no such phase")
        return self._shuffler.slot(known, call.attempt, call.secret)


def shuffler_app(shuffler: Shuffler, roles: RoleTokens, limits: Limits | None = None) -> Starlette:
    """Return the shuffler's application. It closes the shuffler and its store when the server shuts down.

    Args:
        shuffler: The shuffler.
        roles: The hashed tokens of the roles `operator` and `coordinator`.
        limits: The limits on requests; by default `Limits()`.

    Returns:
        The ASGI application.
    """
    served = ShufflerService(shuffler, Metrics())
    endpoints, ends = shuffler_endpoints(served), (shuffler.close_store,)
    return party_app("dpbandits shuffler", served, endpoints, roles, limits, ends=ends)


def shuffler_endpoints(served: ShufflerService) -> list[Endpoint]:
    """Return the endpoints of version 1 of the API. Reports come first, because routes are tried in order."""
    one, who = f"{ATTEMPT}/collection", "coordinator"
    opened, shares = "Open a collection for a cohort", "The coordinator's shares, still sealed"
    closed = "Close a collection; the reply has the sums, or says that there are too few reports"
    verified = "The coordinator's shares, still sealed, with the shuffler's verifier shares"
    summed = "The sums of the shuffler's shares"
    stated = "What the shuffler saw and revealed, signed"
    return [
        report_endpoint(served, "Send the one report, or both its shares, sealed"),
        endpoint("GET /v1/key", None, served.key, "The public key that reports are sealed to", browsers=True),
        endpoint(f"PUT {one}", who, served.open, opened, takes=CollectionRequest, refusals=(409,)),
        endpoint(f"GET {one}", who, served.look, "The state of a collection"),
        endpoint(f"POST {one}/close", who, served.close, closed),
        endpoint(f"GET {one}/shares", who, served.shares, shares, query=("after",), refusals=(409, 422)),
        endpoint(
            f"GET {one}/verifiers", who, served.verifiers, verified, query=("after",), refusals=(409, 422)
        ),
        endpoint(f"POST {one}/sums", who, served.sums, summed, takes=SumsRequest, refusals=(409,)),
        endpoint("GET /v1/statement", who, served.statement, stated, refusals=(404,)),
    ]
