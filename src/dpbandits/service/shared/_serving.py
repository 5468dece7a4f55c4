"""Serve an application with uvicorn, over TLS, until the process is told to end."""

from __future__ import annotations

import gc
import logging
import signal
import ssl
import sys
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")
_GRACE = 10  # seconds for requests that are under way when the process is told to end
_YOUNG = 20_000  # new objects before cycles are looked for: several times those of the requests under way
_KEPT = 60  # seconds for which a connection that is silent is kept: a new one costs a TLS handshake

log = logging.getLogger("dpbandits.service")


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where to listen, and with which certificate. Without one only loopback addresses are allowed."""

    host: str = "127.0.0.1"
    port: int = 8443
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        whole(1, 65_535, port=self.port)
        if (self.certificate is None) != (self.key is None):
            raise InvalidValue("tls", "a certificate or a key alone", "both")
        if self.certificate is None and self.host not in LOOPBACK_HOSTS:
            raise InvalidValue("tls", "none", f"a certificate and a key, to listen on {self.host}")
        for path in (self.certificate, self.key):
            if path is not None and not path.is_file():
                raise InvalidValue("tls", path, "an existing file")
        if self.certificate is not None:
            self._check_pair(self.certificate)

    def _check_pair(self, certificate: Path) -> None:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, self.key)
        except ssl.SSLError:
            raise InvalidValue("tls", certificate, f"a PEM certificate whose key is {self.key}") from None

    @property
    def url(self) -> str:
        """Where callers find it."""
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://{self.host}:{self.port}"


def server_for(app: Starlette, listening: Listening) -> uvicorn.Server:
    """A server that is not started yet. It logs no addresses: uvicorn's own access log is off."""
    config = uvicorn.Config(
        app,
        host=listening.host,
        port=listening.port,
        ssl_certfile=None if listening.certificate is None else str(listening.certificate),
        ssl_keyfile=None if listening.key is None else str(listening.key),
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE,
        timeout_keep_alive=_KEPT,
        lifespan="on",
        ws="none",
    )
    return uvicorn.Server(config)


def serve(app: Starlette, listening: Listening) -> None:
    """Until SIGTERM or SIGINT; then requests under way are finished and the store is closed."""
    _settle_memory()
    # Once all is finished uvicorn raises the signal that ended it again: no reason to die of it.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit(0))
    log.info("listening", extra={"where": listening.url})
    try:
        server_for(app, listening).run()
    finally:
        log.info("ended")


def _settle_memory() -> None:
    """What was loaded stays: looking for cycles goes through requests alone, and not after every few."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
