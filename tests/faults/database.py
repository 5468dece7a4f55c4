"""A PostgreSQL server that can be killed, and whose disk can be full."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import psutil

from tests.storage.postgres import new_database, running

_FULL = 16_384  # bytes: no file can grow beyond them, neither a table nor a segment of the log


class Database:
    """A database of its own on a server that this process has started."""

    def __init__(self, started: Any) -> None:
        self._started = started
        self.url = new_database(started.get_uri())

    def _processes(self) -> list[psutil.Process]:
        number = self._started.get_pid()
        if number is None or not psutil.pid_exists(number):
            return []
        first = psutil.Process(number)
        return [first, *first.children(recursive=True)]

    def kill(self) -> None:
        """End all processes of the server at once."""
        found = self._processes()
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(found, timeout=20)

    def start(self) -> None:
        """Start the server again; it recovers from its log."""
        for _ in range(20):
            try:
                self._started.ensure_postgres_running()
            except Exception:
                time.sleep(0.5)
            else:
                return
        raise RuntimeError("PostgreSQL does not start again")

    def fill_disk(self, full: bool) -> None:
        """Let every attempt to enlarge a file fail, or end this."""
        found = self._processes()
        if not found:
            return
        owner = found[0].uids().real
        # The owner of the processes may differ from the user of the tests, and only the owner may limit them.
        user = owner if os.getuid() == 0 else None
        for one in found:
            command = ["prlimit", f"--fsize={_FULL if full else 'unlimited'}:", "--pid", str(one.pid)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, user=user)
            if done.returncode != 0 and psutil.pid_exists(one.pid):
                raise RuntimeError(f"the disk of PostgreSQL cannot be filled: {done.stderr.strip()}")


@contextlib.contextmanager
def databases() -> Iterator[Any]:
    """Yield a function that creates a database; the server ends with the block."""
    os.environ.setdefault("PGCONNECT_TIMEOUT", "10")
    with running() as started:
        yield lambda: Database(started)
