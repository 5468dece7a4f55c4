"""Serves an application with uvicorn, over TLS, until the process receives SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvicorn
from starlette.applications import Starlette

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.service.shared._accepting import Acceptor
from dpbandits.service.shared._connections import Connection, Door, StepTimes
from dpbandits.service.shared._endpoint import Guard
from dpbandits.service.shared._process_limits import most_connections

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
_GRACE = 10  # seconds that open requests have to finish after SIGTERM or SIGINT
_YOUNG = 20_000  # new objects between garbage collections: several times the objects of open requests
# Seconds after which a thread that computes lets another one run. While the event loop is busy, the writer
# thread waits this long after every statement. With Python's default, 5 ms, polls would wait for seconds.
_SWITCH = 0.0002
_BACKLOG = 2048  # connections that wait to be accepted

log = logging.getLogger("dpbandits.service")


@dataclass(frozen=True, kw_only=True)
class Listening:
    """The address and the TLS certificate of a server. Only loopback hosts need no certificate.

    Attributes:
        host: The address to listen on.
        port: The port to listen on.
        certificate: The PEM file of the certificate chain.
        key: The PEM file of the certificate's private key.

    Raises:
        InvalidValue: The port is not from 1 to 65535, the certificate or the key is missing, or they cannot
            be read or do not fit.
    """

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        whole(1, 65_535, port=self.port)
        if (self.certificate is None) != (self.key is None):
            raise InvalidValue("tls", "only one of certificate and key", "both")
        if self.certificate is None and self.host not in LOOPBACK_HOSTS:
            raise InvalidValue("tls", "none", f"a certificate and a key, to listen on {self.host}")
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise InvalidValue("tls", path, "an existing file")
        if self.certificate is not None:
            self._check_pair(self.certificate)

    def _check_pair(self, certificate: Path) -> None:
        try:
            self.load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), certificate)
        except OSError:  # also ssl.SSLError
            raise InvalidValue(
                "tls", certificate, f"a PEM certificate that fits the key {self.key}, both readable"
            ) from None

    def load(self, context: ssl.SSLContext, certificate: Path) -> None:
        """Read the certificate and its key into a TLS context; later connections use them.

        Args:
            context: The TLS context.
            certificate: The file of the certificate.
        """
        context.load_cert_chain(certificate, self.key)

    def tls(self) -> ssl.SSLContext | None:
        """Return a TLS context of the server; None without a certificate."""
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.load(context, self.certificate)
        return context

    @property
    def url(self) -> str:
        """The URL of the server, for example `https://127.0.0.1:8443`."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host  # an IPv6 address
        return f"{scheme}://{host}:{self.port}"


def server_for(
    app: Starlette, listening: Listening, *, steps: StepTimes | None = None, tls: ssl.SSLContext | None = None
) -> uvicorn.Server:
    """Return a server that is not started yet. It logs no addresses: uvicorn's access log is off.

    Args:
        app: The application.
        listening: The address and the certificate.
        steps: The longest time of each step of a connection; the defaults of `StepTimes` if not given.
        tls: The TLS context; by default a new one with the certificate of `listening`.

    Returns:
        The uvicorn server.
    """
    steps = steps or StepTimes()
    guard: Guard | None = getattr(getattr(app, "state", None), "guard", None)  # other applications have none
    backlog = min(_BACKLOG, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
    door = Door(
        steps=steps,
        tls=tls or listening.tls(),
        rates=None if guard is None else guard.rates,
        metrics=None if guard is None else guard.metrics,
        most=most_connections(backlog),
    )
    config = uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", door),
        log_config=None,
        access_log=False,
        server_header=False,
        loop="asyncio",
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=cast("int", steps.idle),
        lifespan="on",
        ws="none",
    )
    return _Server(config, listening, Acceptor(door, backlog), door)


class _Server(uvicorn.Server):
    """A server of uvicorn that accepts its connections itself."""

    def __init__(self, config: uvicorn.Config, listening: Listening, acceptor: Acceptor, door: Door) -> None:
        super().__init__(config)
        self._listening = listening
        self._acceptor = acceptor
        self._door = door

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections."""
        listeners = sockets or _listening_sockets(self._listening)
        await super().startup([])  # uvicorn accepts none
        self._acceptor.begin(listeners, self._connection)

    def _connection(self) -> Connection:
        return self._door(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and finish the open requests."""
        self._acceptor.close()
        await super().shutdown(sockets)


def serve(app: Starlette, listening: Listening) -> None:
    """Serve until SIGTERM or SIGINT, then finish open requests and close the store.

    After SIGHUP the server reads the certificate and the key again, for new connections.

    Args:
        app: The application.
        listening: The address and the certificate.

    Raises:
        InvalidValue: The address cannot be used, for example because another process listens there.
    """
    sockets = _listening_sockets(listening)
    raise_file_limit()
    _settle_memory()
    sys.setswitchinterval(_SWITCH)
    # After a graceful shutdown uvicorn raises SIGTERM again. Exit with status 0 then.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    tls = listening.tls()
    signal.signal(signal.SIGHUP, lambda _signal, _frame: _load_again(listening, tls))
    log.info("listening", extra={"where": listening.url})
    try:
        server_for(app, listening, tls=tls).run(sockets)
    finally:
        log.info("ended")


def _load_again(listening: Listening, tls: ssl.SSLContext | None) -> None:
    """Read a renewed certificate and its key for new connections. Keep the old pair if that fails."""
    if tls is None or listening.certificate is None:
        return
    try:
        listening.load(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), listening.certificate)
        listening.load(tls, listening.certificate)
    except OSError as error:  # also ssl.SSLError
        log.error("certificate-not-loaded", extra={"kind": type(error).__name__})
    else:
        log.info("certificate-loaded")


def _listening_sockets(listening: Listening) -> list[socket.socket]:
    """Return a listening socket per address of the host. An address in use raises `InvalidValue`."""
    sockets = list[socket.socket]()
    try:
        found = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            sockets.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ended connections do not block a port
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(_BACKLOG)
    except OSError as error:
        for one in sockets:
            one.close()
        where = f"{listening.host} port {listening.port}"
        raise InvalidValue("server", where, f"an address to listen on ({error.strerror})") from None
    return sockets


def raise_file_limit() -> None:
    """Allow as many open files as the hard limit: each connection needs one. Log the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems have a lower limit of their own
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    now = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    log.info("open-files", extra={"told": f"at most {now} open files; the soft limit was {soft}"})


def _settle_memory() -> None:
    """Collect garbage less often, and only among objects that are created from now on.

    What is loaded at the start stays in use, so scanning it again with every collection would waste time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
