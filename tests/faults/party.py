"""A coordinator or a shuffler in a forked process: the real application with the real store.

The parent sets the time and delivers the requests. The coordinator's calls to its shuffler also go through
the parent, so that every message passes through the faulty network. After a kill only the store remains.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import sqlalchemy.dialects.sqlite  # noqa: F401  (before any fork, as it takes time)
from sqlalchemy import event
from sqlalchemy.pool import Pool
from starlette.applications import Starlette

from dpbandits.errors import StorageError, Unreachable
from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import Study
from dpbandits.service.coordinator import (
    Context,
    Coordinator,
    HttpLink,
    WatchedStore,
    Watermark,
    coordinator_app,
)
from dpbandits.service.shared import Dialogue, Limits, RoleTokens, ShufflerAddress, Timing
from dpbandits.service.shared._dialogue import RETRIED, Incoming, Outgoing
from dpbandits.service.shuffler import Shuffler, ShufflerContext, shuffler_app
from dpbandits.service.wire import KeyPair, SignedTerms, VerifyKey, hashed
from dpbandits.storage._sql import SqlStore

TOKENS = {role: f"the-token-of-the-{role}" for role in ("operator", "actuator", "coordinator")}
ROLES = RoleTokens(hashes={role: hashed(token) for role, token in TOKENS.items()})
TIMING = Timing(report_seconds=60, join_seconds=90, poll_seconds=1)
LIMITS = Limits(requests_per_second=1e6, burst=10**6)
NO_LIMIT = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
ROOM = {"limit": 2000, "limit-later": 40_000}  # bytes that the log can still grow on a full disk


@dataclass(frozen=True, kw_only=True)
class Site:
    """The configuration of both parties."""

    directory: Path
    study: Study
    mode: str | None
    keys: dict[str, KeyPair]
    signed: SignedTerms | None = None
    operator: VerifyKey | None = None  # the key that signed the terms

    def database(self, party: str) -> Path:
        return self.directory / f"{party}.sqlite"

    def progress(self, party: str) -> Path:
        """Return the file, outside the store, in which a party records how far it has come."""
        return self.directory / f"{party}.progress"

    def note(self, party: str) -> Path:
        """Return the file in which a party records the step at which it kills itself."""
        return self.directory / f"{party}.killed-at"


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A request as it arrives. `cut` is true if the connection closes before the end of the body."""

    outgoing: Outgoing
    body: bytes
    cut: bool = False


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a party does next: handle requests, and with `step` also advance the study, at the same time."""

    now: float
    deliveries: list[Delivery]
    step: bool = False


@dataclass(frozen=True, kw_only=True)
class Done:
    """The replies, the error of a failed step, and the errors that were logged."""

    replies: list[Incoming]
    error: str = ""
    mistakes: tuple[str, ...] = ()


class SameNoise(SimulatedNoise):
    """The same noise for every release, so that the checker can compute it."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(5))

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Any:
        self._rng = np.random.default_rng(5)
        return super().discrete_gaussian(scale, shape)

    def box_norm(self, scale: float, shape: tuple[int, int]) -> Any:
        self._rng = np.random.default_rng(5)
        return super().box_norm(scale, shape)

    def ball_norm(self, scale: float, shape: tuple[int, int]) -> Any:
        self._rng = np.random.default_rng(5)
        return super().ball_norm(scale, shape)

    def discrete_laplace(self, scale: float, shape: tuple[int, ...]) -> Any:
        self._rng = np.random.default_rng(5)
        return super().discrete_laplace(scale, shape)


class ProcessClock:
    """A clock like `SteadyClock`: the wall-clock time at the start of the process, plus monotonic time."""

    def __init__(self, offset: float, now: float) -> None:
        self._offset = offset
        self.steady = now

    def now(self) -> float:
        return self._offset + self.steady


class _Killer:
    """Kills its own process at the n-th occurrence of a step."""

    def __init__(self, steps: dict[str, int], note: Path) -> None:
        self._left = dict(steps)
        self._note = note

    def __call__(self, step: str) -> None:
        if step in self._left:
            self._left[step] -= 1
            if self._left[step] == 0:
                draft = self._note.with_suffix(".draft")
                draft.write_text(step)
                draft.replace(self._note)  # whole, or not there: the clock may kill this process meanwhile
                os.kill(os.getpid(), signal.SIGKILL)


class _LinkTransport:
    """Like `Transport`, but through the parent."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def hold(self, dialogue: Dialogue[Any]) -> Any:
        try:
            outgoing = next(dialogue)
            while True:
                outgoing = dialogue.send(self._exchange(outgoing))
        except StopIteration as end:
            return end.value

    def _exchange(self, outgoing: Outgoing) -> Incoming:
        for _ in range(3):
            self._pipe.send(outgoing)
            reply: Incoming | None = self._pipe.recv()
            if reply is not None and reply.status not in RETRIED:
                return reply
        raise Unreachable(outgoing.url)


class _Link(HttpLink):
    """The calls of the real link, over a pipe."""

    def __init__(self, url: str, pipe: Connection) -> None:
        self._url, self._token = url, TOKENS["coordinator"]
        self._transport = _LinkTransport(pipe)  # type: ignore[assignment]


class _Mistakes(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        told = [str(getattr(record, name)) for name in ("route", "kind", "at") if hasattr(record, name)]
        self.found.append(" ".join((record.getMessage(), *told)))


class _Disk:
    """A disk that is full for one process: the kernel or SQLite does not let its files grow."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._connections: list[Any] = []

    def watch(self) -> None:
        """Track every connection that this process opens or closes."""
        event.listen(Pool, "connect", lambda connection, _record: self._connections.append(connection))
        event.listen(Pool, "close", lambda connection, _record: self._connections.remove(connection))

    def fill(self, how: str) -> None:
        if how in ROOM:
            log = self._database.with_name(self._database.name + "-wal")
            size = log.stat().st_size if log.exists() else 0
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + ROOM[how], resource.RLIM_INFINITY))
        else:
            self._pages("(SELECT page_count FROM pragma_page_count)")

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, NO_LIMIT)
        self._pages("1073741823")

    def _pages(self, most: str) -> None:
        for connection in self._connections:
            count = connection.execute(f"SELECT {most}").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {count}")


class Child:
    """The child's side of the pipes."""

    def __init__(self, site: Site, name: str, start: dict[str, Any], link: Connection) -> None:
        self.clock = ProcessClock(start["offset"], start["now"])
        self.disk = _Disk(site.database(name))
        self.mistakes = _Mistakes()
        logging.getLogger("dpbandits").addHandler(self.mistakes)
        self.disk.watch()
        if start["disk"] in ROOM:
            self.disk.fill(start["disk"])
        hook = _Killer(start["kill"], site.note(name))
        store = SqlStore(f"sqlite:///{site.database(name)}", hook=hook)
        self.coordinator: Coordinator | None = None
        if name == "coordinator":
            self.app = self._coordinator(site, store, hook, link)
        else:
            context = ShufflerContext(keys=site.keys["shuffler"], mode=site.mode or "", hook=hook)
            watched = WatchedStore(store, Watermark(site.progress(name), name))
            self.app = shuffler_app(Shuffler(context, watched), ROLES, LIMITS)
        if start["disk"] == "pages":
            self.disk.fill(start["disk"])

    def _coordinator(self, site: Site, store: SqlStore, hook: _Killer, link: Connection) -> Starlette:
        address, far = None, None
        if site.mode is not None:
            address = ShufflerAddress(
                url="http://shuffler", key=str(site.keys["shuffler"].public), mode=site.mode
            )
            far = _Link(address.url, link)
        context = Context(
            study=site.study.without_terms,
            signed=site.signed,
            keys=site.keys["coordinator"],
            timing=TIMING,
            shuffler=address,
            url="http://coordinator",
            noise=SameNoise(),
            clock=self.clock,
            hook=hook,
            watermark=Watermark(site.progress("coordinator"), site.study.digest),
        )
        self.coordinator = Coordinator(context, store, far)
        return coordinator_app(self.coordinator, ROLES, LIMITS)

    def serve(self, main: Connection) -> None:
        loop = asyncio.new_event_loop()
        main.send("up")
        while True:
            command = main.recv()
            if isinstance(command, Work):
                main.send(loop.run_until_complete(self._do(command)))
            elif command == "free":
                self.disk.free()
            elif command == "stop":
                return
            else:
                self.disk.fill(command)

    async def _do(self, work: Work) -> Done:
        self.clock.steady = work.now
        moving = asyncio.to_thread(self._step) if work.step else _nothing()
        error, *replies = await asyncio.gather(moving, *(_ask(self.app, one) for one in work.deliveries))
        mistakes, self.mistakes.found = tuple(self.mistakes.found), []
        return Done(replies=replies, error=error, mistakes=mistakes)

    def _step(self) -> str:
        """Advance the study, as the thread of the real service does."""
        assert self.coordinator is not None
        try:
            for _ in range(50):
                if not self.coordinator.advance():
                    return ""
        except (Unreachable, StorageError):
            return ""
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return f"{type(error).__name__}: {error} at {where.name}:{where.lineno}"
        return "the study never stops advancing"


async def _nothing() -> str:
    return ""


async def _ask(app: Starlette, delivery: Delivery) -> Incoming:
    """Pass one request to the application, as an ASGI server does."""
    outgoing, status, parts = delivery.outgoing, [0], list[bytes]()
    url = urlsplit(outgoing.url)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": outgoing.method,
        "scheme": "http",
        "path": url.path,
        "raw_path": url.path.encode(),
        "root_path": "",
        "query_string": url.query.encode(),
        "headers": [(name.lower().encode(), text.encode()) for name, text in outgoing.headers.items()],
        "client": ("127.0.0.1", 1),
        "server": (url.netloc, 80),
    }
    arriving = iter([{"type": "http.request", "body": delivery.body, "more_body": delivery.cut}])

    async def receive() -> Any:
        return next(arriving, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        status[0] = message.get("status", status[0])
        parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Incoming(status=status[0], content=b"".join(parts))
