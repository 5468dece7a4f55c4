"""A malicious coordinator over real HTTP: it sends clients any terms and plan, and records what they send."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dpbandits.protocol import Plan, encode
from dpbandits.service.wire import ClientReply, SignedTerms, StudyReply, TaskReply

from .live import served


@dataclass
class HostileCoordinator:
    """Sends `signed` as the terms and `plan` as the plan; `posted` has every path that a client posted to."""

    signed: SignedTerms
    plan: Plan | None = None
    plan_bytes: bytes = b""
    posted: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def study(self, _request: Request) -> Response:
        about = StudyReply(
            study=self.signed.digest,
            terms=self.signed.terms,
            signature=self.signed.signature,
            actions=12,
            dimension=3,
            horizon=1000,
        )
        return _json(about)

    async def clients(self, _request: Request) -> Response:
        self.posted.append("/v1/clients")
        return _json(ClientReply(study=self.signed.digest))

    async def tasks(self, _request: Request) -> Response:
        self.posted.append("/v1/tasks")
        body = self.plan_bytes.decode() or (None if self.plan is None else encode(self.plan).decode())
        digest = None if self.plan is None else self.plan.digest
        phase = 1 if self.plan is None else self.plan.phase
        task = TaskReply(
            study=self.signed.digest,
            state="report",
            poll_seconds=0.01,
            phase=phase,
            attempt=1,
            plan_digest=digest,
            plan=body,
        )
        return _json(task)

    async def reports(self, request: Request) -> Response:
        self.posted.append(request.url.path)
        self.bodies.append(await request.body())
        return Response(status_code=204)

    @contextlib.contextmanager
    def served(self, port: int | None = None) -> Iterator[str]:
        routes = [
            Route("/v1/study", self.study),
            Route("/v1/clients", self.clients, methods=["POST"]),
            Route("/v1/tasks", self.tasks, methods=["POST"]),
            Route("/v1/phases/{phase}/attempts/{attempt}/reports", self.reports, methods=["POST"]),
        ]
        with served(Starlette(routes=routes), port) as url:
            yield url

    @property
    def reported(self) -> bool:
        """Whether a client sent a report to this coordinator."""
        return bool(self.bodies)


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")
