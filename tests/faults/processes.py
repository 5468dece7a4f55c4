"""The parent's side of a forked party: start it, send it work, kill it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from dpbandits.errors import StorageError
from dpbandits.service.shared._dialogue import Incoming, Outgoing

from .party import Child, Done, Site, Work

HANGS = 60.0  # seconds after which a party that does not respond is aborted
NO_STORE = 3  # the exit status of a party that could not open its store


class Died(Exception):  # noqa: N818
    """The party's process has ended."""


@dataclass
class Party:
    """A forked party. `answer_link` handles the coordinator's requests to its shuffler."""

    site: Site
    name: str
    kill: dict[str, int]
    answer_link: Callable[[Outgoing], Incoming | None]
    pid: int = 0
    status: int = 0
    pipes: list[Connection] = field(default_factory=list)

    @property
    def up(self) -> bool:
        return self.pid != 0

    def start(self, others: list[Party], **start: Any) -> None:
        """Start or restart the process.

        Raises:
            Died: If it ends before it is ready.
        """
        main, mains = Pipe()
        link, links = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            inherited = [main, link, *(pipe for other in others for pipe in other.pipes)]
            _live(self.site, self.name, {**start, "kill": self.kill}, (mains, links), inherited)
        mains.close()
        links.close()
        self.pipes = [main, link]
        self._receive(None)

    def work(self, work: Work, kill_after: float | None = None) -> Done:
        """Send work and return the result; kill the process if there is none after `kill_after` seconds.

        Raises:
            Died: If the process ends before it responds.
        """
        try:
            self.pipes[0].send(work)
        except OSError:
            self.ended()
            raise Died from None
        done = self._receive(kill_after)
        assert isinstance(done, Done)
        return done

    def _receive(self, kill_after: float | None) -> Any:
        main, link = self.pipes
        while True:
            ready = wait([main, link], HANGS if kill_after is None else kill_after)
            if not ready:
                self.signal(signal.SIGKILL if kill_after is not None else signal.SIGABRT)
                kill_after = None
            try:
                if main in ready:
                    return main.recv()
                if link in ready:
                    link.send(self.answer_link(link.recv()))
            except (EOFError, OSError):
                self.ended()
                raise Died from None

    def tell(self, command: str) -> None:
        """Send a command that has no reply."""
        try:
            self.pipes[0].send(command)
        except OSError:
            self.ended()

    def signal(self, number: int) -> None:
        if self.pid:
            os.kill(self.pid, number)

    def ended(self) -> None:
        """Wait until the process has ended."""
        if self.pid:
            _, status = os.waitpid(self.pid, 0)
            self.status, self.pid = os.waitstatus_to_exitcode(status), 0
        for pipe in self.pipes:
            pipe.close()
        self.pipes = []


def _live(
    site: Site,
    name: str,
    start: dict[str, Any],
    pipes: tuple[Connection, Connection],
    inherited: list[Connection],
) -> None:
    """Run the forked process. This function never returns."""
    status = 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles interrupts
    try:
        for pipe in inherited:
            pipe.close()
        child = Child(site, name, start, pipes[1])
        child.serve(pipes[0])
        status = 0
    except StorageError:
        status = NO_STORE
    except (EOFError, BrokenPipeError):
        status = 4  # the parent has ended
    except BaseException:
        traceback.print_exc(file=sys.stderr)
        sys.stderr.flush()
    finally:
        os._exit(status)
