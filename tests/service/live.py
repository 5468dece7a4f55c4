"""Serving an application on a loopback port in a thread of the test, with TLS if a certificate is given."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from starlette.applications import Starlette

from dpbandits.service.shared import Listening, StepTimes, server_for

from .processes import free_port


@contextlib.contextmanager
def served(
    app: Starlette,
    port: int | None = None,
    *,
    steps: StepTimes | None = None,
    pair: tuple[Path, Path] | None = None,
) -> Iterator[str]:
    certificate, key = pair or (None, None)
    listening = Listening(port=port or free_port(), certificate=certificate, key=key)
    server = server_for(app, listening, steps=steps)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.01)
    try:
        yield listening.url
    finally:
        server.should_exit = True
        thread.join(30)
