"""How far a study has come, in a small file outside the store: a store that was set back is noticed.

A backup of the store that is put back would ask clients again and release a phase again. So the coordinator
notes in a file, which is kept with its private key and never restored with the store,

    furthest   the furthest (phase, attempt, state) of which anybody outside may have heard
    intent     the release that is about to be committed: its attempt, a keyed digest of the reports, a digest
               of the release

- Every transaction first reads the file and then where the store is. A store that is behind raises
  `StoreWentBack`, so nothing is written, released or told. The file is read first: what was committed then
  must still be there, however many workers move the study on meanwhile.
- `furthest` is written after a commit that moved the study on, and before anybody is answered.
- The intent is written before the commit. A phase with an intent is released as intended or not at all. If
  the process dies between the two, the attempt is `closed`: no report comes in, and the same reports give the
  same release again.
- The file is replaced as a whole: written under another name, synced, renamed, and the directory synced.
  Workers on one machine share it, and lock its directory while they change it.

A shuffler has the same file for its collections, without intents.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from dpbandits.errors import InvalidValue, StorageError, StoreWentBack
from dpbandits.protocol import decode, encode
from dpbandits.storage import ATTEMPT_STATES, Attempt, Store, Transaction

_REMEDY = (
    "Nothing is released and no client is asked. Put the newest store back, or begin a new study with a new "
    "key, a new store and new clients; see docs/deploying.md, Backups"
)


@dataclass(frozen=True, kw_only=True)
class Position:
    """Where a store is: the state of its latest attempt. Phase 0 is a store without any attempt."""

    phase: int = 0
    attempt: int = 0
    state: str = ""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Never falls while a study runs: states are listed in the order of their lives."""
        return self.phase, self.attempt, ATTEMPT_STATES.index(self.state) if self.state else -1

    def __str__(self) -> str:
        """For people."""
        return f"phase {self.phase}, attempt {self.attempt}, {self.state}" if self.phase else "the beginning"


@dataclass(frozen=True, kw_only=True)
class Intent:
    """A release that is about to be committed, or was."""

    phase: int
    attempt: int
    reports: str
    release: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """What the file holds."""

    owner: str
    furthest: Position = Position()
    intent: Intent | None = None


class Watermark:
    """The file. `owner` says whose it is: the study's digest, for a coordinator."""

    def __init__(self, path: Path, owner: str) -> None:
        self.path = path
        self.owner = owner

    def read(self) -> Mark | None:
        """What is in the file now; None if there is none."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._broken(error) from error
        try:
            mark = decode(content, Mark)
        except InvalidValue:
            raise InvalidValue("progress file", self.path, "a file that dpbandits wrote") from None
        if mark.owner != self.owner:
            raise InvalidValue(
                "progress file", self.path, "this study's own: each study has a key of its own"
            )
        return mark

    def check(self, mark: Mark | None, position: Position) -> None:
        """Compare a store with what the file said before the store was read."""
        if mark is None and position.phase and not self.path.exists():
            raise StoreWentBack(
                f"storage: the store is at {position}, but there is no {self.path}, which says how far the "
                "study was: copy it from the machine that ran the study, or from another worker. Without it "
                "an old copy of a store looks like a new one"
            )
        if mark is not None and position.rank < mark.furthest.rank:
            raise StoreWentBack(
                f"storage: the store is at {position}, but the study was at {mark.furthest} before, by "
                f"{self.path}: an old copy of the store was put back. {_REMEDY}"
            )

    def seen(self, position: Position) -> None:
        """Note that the store was here, if that is further than what is noted."""
        with self._locked() as directory:
            mark = self.read()
            if mark is None or mark.furthest.rank < position.rank:
                self._write(directory, replace(mark or Mark(owner=self.owner), furthest=position))

    def intend(self, intent: Intent) -> None:
        """Note a release before it is committed; refused if another one was noted for its phase."""
        with self._locked() as directory:
            mark = self.read() or Mark(owner=self.owner)
            if mark.intent == intent:
                return
            self._refuse_other(mark, intent.phase, f"attempt {intent.attempt}, with other reports or noise")
            self._write(directory, replace(mark, intent=intent))

    def fail(self, phase: int, attempt: int) -> None:
        """Refuse to let an attempt fail once its phase was released, or was about to be."""
        self._refuse_other(self.read(), phase, f"attempt {attempt}, with too few reports")

    def _refuse_other(self, mark: Mark | None, phase: int, now: str) -> None:
        if mark is not None and mark.intent is not None and mark.intent.phase >= phase:
            raise StoreWentBack(
                f"storage: the store closes phase {phase} in {now}, but phase {mark.intent.phase} was "
                f"released, or about to be, in attempt {mark.intent.attempt}, by {self.path}. {_REMEDY}"
            )

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the directory, which unlike the file is never replaced."""
        try:
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._broken(error) from error
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield directory
        finally:
            os.close(directory)

    def _write(self, directory: int, mark: Mark) -> None:
        draft = self.path.with_name(f"{self.path.name}.new")
        try:
            with contextlib.suppress(FileNotFoundError):  # of a process that died here
                draft.unlink()
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(encode(mark))
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            os.fsync(directory)
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> StorageError:
        return StorageError(
            f"storage: {self.path}: {error.strerror}; [keys] progress names a file that can be written"
        )


class WatchedStore(Store):
    """A store that is compared with its watermark in every transaction."""

    def __init__(self, store: Store, watermark: Watermark) -> None:
        self._store = store
        self._watermark = watermark

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """As the store's own, unless the store is behind."""
        mark = self._watermark.read()
        with self._store.transaction() as transaction:
            noticing = _Noticing(transaction, _position(transaction.latest()))
            self._watermark.check(mark, noticing.reached)
            yield cast("Transaction", noticing)
        if mark is None or noticing.reached.rank > mark.furthest.rank:
            self._watermark.seen(noticing.reached)

    def forget(self) -> bool:
        """As the store's own."""
        return self._store.forget()

    def close(self) -> None:
        """As the store's own."""
        self._store.close()


class _Noticing:
    """A transaction that knows how far it has brought its store; to read that back would cost a query."""

    def __init__(self, transaction: Transaction, reached: Position) -> None:
        self._transaction = transaction
        self.reached = reached

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def add_attempt(self, attempt: Attempt) -> None:
        self._transaction.add_attempt(attempt)
        self._notice(attempt)

    def change_attempt(self, before: Attempt, after: Attempt) -> None:
        self._transaction.change_attempt(before, after)
        self._notice(after)

    def _notice(self, attempt: Attempt) -> None:
        self.reached = max(self.reached, _position(attempt), key=lambda position: position.rank)


def _position(latest: Attempt | None) -> Position:
    if latest is None:
        return Position()
    return Position(phase=latest.phase, attempt=latest.number, state=latest.state)
