"""Starts commands of `dpbandits` quickly, as copies of a process that has imported their modules.

Importing them takes a second or two of processor time, and a run under faults starts some fifteen processes.
So one process imports everything once, and then forks for each command: a real process with its own number,
files and threads, which can be killed, stopped and limited as any other. The standard input of the first
process has one JSON line per request. It replies with the number of the new process, or with the exit status
of one that has ended. All its children end with it.

The clock of a command can be wrong. `time.time` is replaced before other modules can keep a reference to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.service.processes import ENVIRONMENT

_MODULES = (
    *("psycopg", "sqlalchemy.dialects.sqlite", "sqlalchemy.dialects.postgresql", "uvicorn.lifespan.on"),
    *("dpbandits.cli._actuator", "dpbandits.cli._serve", "dpbandits.cli._shuffler"),
    *("dpbandits.service.config", "dpbandits.service.dashboard", "dpbandits.service.shuffler"),
    *("dpbandits.service.actuator", "dpbandits.service.coordinator", "dpbandits.service.client"),
)
_STARTS = 120.0  # seconds in which the modules are imported, on a busy machine


def load_modules() -> None:
    """Import all that the commands of a deployment need."""
    os.environ["EAGER_IMPORT"] = "1"  # of lazy_loader, which imports names when they are first used
    for module in _MODULES:
        import_module(module)
    del os.environ["EAGER_IMPORT"]


class Forked:
    """A process that `Preloaded` has started; its methods are those of `subprocess.Popen`."""

    def __init__(self, parent: Preloaded, pid: int) -> None:
        self._parent = parent
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, or None while the process is running."""
        if self.returncode is None:
            self.returncode = self._parent.request({"status": self.pid})
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for the end of the process.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        until = time.monotonic() + timeout
        while (status := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.02)
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended. Its number is not used again before `poll` says so."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)


class Preloaded:
    """The process that has imported the modules."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.preloaded"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENVIRONMENT,
            text=True,
        )
        self._lock = threading.Lock()

    def start(self, arguments: list[str], log: Path, *, ahead: float = 0.0) -> Forked:
        """Start a command.

        Args:
            arguments: The arguments of `dpbandits`.
            log: The file that its output is appended to.
            ahead: The seconds by which its clock is wrong.
        """
        pid = self.request({"arguments": arguments, "log": str(log), "ahead": ahead})
        assert pid is not None
        return Forked(self, pid)

    def request(self, asked: dict[str, Any]) -> int | None:
        """Send a request and return the reply."""
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            found: int | None = json.loads(self._process.stdout.readline())
            return found

    def close(self) -> None:
        """End the process and its children."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_STARTS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _serve() -> dict[str, Any] | None:
    """Fork once per request; return the request in the new process, and None at the end in the first one."""
    running = set[int]()
    for line in sys.stdin:
        asked: dict[str, Any] = json.loads(line)
        reply: int | None = None
        if "status" in asked:
            ended, status = os.waitpid(asked["status"], os.WNOHANG)
            if ended:
                running.discard(ended)
                reply = os.waitstatus_to_exitcode(status)
        else:
            reply = os.fork()
            if reply == 0:
                return asked
            running.add(reply)
        print(json.dumps(reply), flush=True)
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return None


def _redirect(log: str) -> None:
    nothing, output = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)


if __name__ == "__main__":
    wrong, right = [0.0], time.time
    time.time = lambda: right() + wrong[0]
    load_modules()
    from dpbandits.cli import main

    begun = _serve()
    if begun is not None:
        _redirect(begun["log"])
        wrong[0] = begun["ahead"]
        sys.exit(main(begun["arguments"]))
