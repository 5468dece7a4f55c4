"""A whole study in a forked process that is killed at a named journal step and continued in another process.

The state of the clients is in files. The state of coordinator and shuffler is in their stores only.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpbandits.privacy import SecureNoise
from dpbandits.protocol import Release, decode
from dpbandits.service.coordinator import WatchedStore, Watermark
from dpbandits.service.wire import KeyPair, hashed
from dpbandits.storage import Store
from dpbandits.storage._sql import SqlStore

from .helpers import Deployment, Member, small_study

CLIENTS = 26


@dataclass
class Killer:
    """A hook that records the journal steps and kills its own process at a given one."""

    step: str = ""
    seen: list[str] = field(default_factory=list)

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if step == self.step:
            os.kill(os.getpid(), signal.SIGKILL)


class Crashing(Deployment):
    """A deployment on disk. Its clients have numbers, and keep their sealed reports in files."""

    order: Sequence[int] = range(CLIENTS)

    def __init__(
        self,
        directory: Path,
        trust: str,
        mode: str | None,
        hook: Callable[[str], None],
        *,
        watched: bool = True,
    ) -> None:
        self.directory = directory
        study = small_study(trust, share=0.5)
        shuffler_store: Store = SqlStore(f"sqlite:///{directory / 'shuffler.sqlite'}")
        watermark = Watermark(directory / "coordinator.pem.progress", study.digest) if watched else None
        if watched:
            watermark_there = Watermark(directory / "shuffler.pem.progress", "shuffler")
            shuffler_store = WatchedStore(shuffler_store, watermark_there)
        for name in ("coordinator.pem", "shuffler.pem"):
            if not (directory / name).exists():
                KeyPair.new().save(directory / name)
        super().__init__(
            study=study,
            mode=mode,
            store=SqlStore(f"sqlite:///{directory / 'coordinator.sqlite'}"),
            shuffler_store=shuffler_store,
            keys=KeyPair.load(directory / "coordinator.pem"),
            shuffler_keys=KeyPair.load(directory / "shuffler.pem"),
            hook=hook,
            noise=SecureNoise(),
            watermark=watermark,
        )

    def client(self, number: int) -> Member:
        return Member(token=f"token-{number}-of-a-client", ticket=f"ticket-{number}-of-a-client")

    def enrol_all(self) -> None:
        codes = [f"code-{number}-of-a-client" for number in range(CLIENTS)]
        self.run(lambda t: self.coordinator.operator.keep_codes(t, codes))
        for number, code in enumerate(codes):
            token = hashed(self.client(number).token)
            self.coordinator.writer.run(
                "enrol", lambda t, c=code, h=token: self.coordinator.clients.enrol(t, c, h)
            )

    def to_the_end(self) -> None:
        """Repeat the step of every party until the study has ended."""
        self.enrol_all()
        for _ in range(60):
            self.advance()
            if self.coordinator.ended:
                return
            for number in self.order:
                self._try_client(number)
            status = self.run(self.coordinator.operator.status)
            if status.state == "playing":
                self.play()
            if status.state == "collecting":
                self.clock.time += self.timing.report_seconds + 1
        raise AssertionError("the study does not end")

    def _try_client(self, number: int) -> None:
        member = self.client(number)
        task = self.coordinator.writer.run(
            "join", lambda t: self.coordinator.clients.task(t, member.token, member.pseudonym)
        )
        self.advance()
        if task.state == "report":
            self.send(member, self._kept_body(number, member))
            self._note_accepted(task.phase, task.attempt, member.pseudonym)

    def _kept_body(self, number: int, member: Member) -> bytes:
        path = self.directory / f"client-{number}.sealed"
        if not path.exists():
            path.write_bytes(self.body(member))
        return path.read_bytes()

    def _note_accepted(self, phase: int, attempt: int, pseudonym: str) -> None:
        with (self.directory / "accepted.jsonl").open("a") as file:
            file.write(json.dumps([phase, attempt, pseudonym]) + "\n")


def in_a_fork(work: Callable[[], Any]) -> int:
    """Run `work` in a forked child and return its exit status, or minus the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc(file=sys.stderr)
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def releases_of(store: SqlStore) -> dict[int, tuple[int, Release]]:
    with store.transaction() as transaction:
        records = transaction.releases()
    return {record.phase: (record.attempt, decode(record.body, Release)) for record in records}
