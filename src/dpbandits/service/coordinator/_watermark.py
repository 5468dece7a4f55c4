"""The progress file: a small file outside the store that says how far a study has come.

With this file a coordinator detects that an old copy of its store was restored. Such a copy would ask clients
again and release a phase twice. The coordinator keeps the file next to its private key. The file must never
be restored together with the store. It contains

    owner      what the file belongs to: the digest of the study, without its terms
    furthest   the furthest (phase, attempt, state) that any other party may know of
    intent     the last release that was about to be committed: its phase and attempt, a keyed digest of the
               reports, a digest of the release

- Every transaction first reads the file and then the position of the store. A store that is behind the file
  raises `StoreWentBack`, so nothing is written, released or sent. The file is read first: everything that was
  committed by then must be in the store, even if other workers advance the study in the meantime.
- `furthest` is written after a commit that advanced the study, and before any reply is sent.
- The intent is written before the release is committed. A phase with an intent is released as intended or
  not at all. If the process crashes between the two steps, the attempt accepts no more reports, so the same
  reports give the same release again.
- The file is replaced atomically: written under another name, synced and renamed, and then the directory is
  synced. Workers on one machine share it, and lock its directory while they change it.

A shuffler has a file of the same format for its collections, without intents. Its owner is the shuffler's
public key.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from dpbandits._checks import one_of
from dpbandits.errors import InvalidValue, StorageError, StoreWentBack
from dpbandits.protocol import decode, encode
from dpbandits.service.wire import replace_private
from dpbandits.storage import ATTEMPT_STATES, Attempt, Store, Transaction

_REMEDY = (
    "Nothing is released and no client is asked. Restore the newest store, or start a new study with a new "
    "key, a new store and new clients; see docs/deploying.md, Backups"
)


@dataclass(frozen=True, kw_only=True)
class Position:
    """The position of a store: the state of its latest attempt. In phase 0 there is no attempt yet."""

    phase: int = 0
    attempt: int = 0
    state: str = ""

    def __post_init__(self) -> None:
        if self.state:
            one_of(ATTEMPT_STATES, state=self.state)

    @property
    def rank(self) -> tuple[int, int, int]:
        """A sort key that never decreases while a study runs, since `ATTEMPT_STATES` is in order."""
        return self.phase, self.attempt, ATTEMPT_STATES.index(self.state) if self.state else -1

    def __str__(self) -> str:
        """Return the position for error messages."""
        return f"phase {self.phase}, attempt {self.attempt}, {self.state}" if self.phase else "the beginning"


@dataclass(frozen=True, kw_only=True)
class Intent:
    """A release that is about to be committed, or has been.

    Attributes:
        phase: The phase.
        attempt: The number of the attempt.
        reports: The keyed digest of the reports.
        release: The digest of the release.
    """

    phase: int
    attempt: int
    reports: str
    release: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    """The content of the file."""

    owner: str
    furthest: Position = Position()
    intent: Intent | None = None


class Watermark:
    """The progress file.

    Args:
        path: The path of the file.
        owner: Identifies the study that the file belongs to; for a coordinator, the study's digest.
    """

    def __init__(self, path: Path, owner: str) -> None:
        self.path = path
        self.owner = owner

    def read(self) -> Mark | None:
        """Read the file.

        Returns:
            Its content; None if there is no file.

        Raises:
            InvalidValue: The file is malformed, or belongs to another study.
            StorageError: The file cannot be read.
        """
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._broken(error) from error
        try:
            mark = decode(content, Mark)
        except InvalidValue as error:
            expected = f"a file that dpbandits wrote: {error.expected}"
            raise InvalidValue("progress file", self.path, expected) from None
        if mark.owner != self.owner:
            raise InvalidValue(
                "progress file", self.path, "the file of this study: each study has its own key"
            )
        return mark

    def check(self, mark: Mark | None, position: Position) -> None:
        """Compare the position of a store with the file, which was read before the store.

        Args:
            mark: The content of the file; None if there is none.
            position: The position of the store.

        Raises:
            StoreWentBack: The store is behind the file, or the study has begun and there is no file.
        """
        if mark is None and position.phase and not self.path.exists():
            raise StoreWentBack(
                f"storage: the store is at {position}, but there is no progress file {self.path}: copy it "
                "from the machine that ran the study, or from another worker. Without it, an old copy of the "
                "store cannot be detected"
            )
        if mark is not None and position.rank < mark.furthest.rank:
            raise StoreWentBack(
                f"storage: the store is at {position}, but the study was at {mark.furthest} before, "
                f"according to {self.path}: an old copy of the store was restored. {_REMEDY}"
            )

    def seen(self, position: Position) -> None:
        """Record the position of the store, if it is further than the recorded one.

        Args:
            position: The position of the store.
        """
        with self._locked():
            mark = self.read()
            if mark is None or mark.furthest.rank < position.rank:
                self._write(replace(mark or Mark(owner=self.owner), furthest=position))

    def intend(self, intent: Intent) -> None:
        """Record a release before it is committed.

        Args:
            intent: The release.

        Raises:
            StoreWentBack: Another release of this phase, or a release of a later one, was recorded.
        """
        with self._locked():
            mark = self.read() or Mark(owner=self.owner)
            if mark.intent == intent:
                return
            self._refuse_other(mark, intent.phase, f"attempt {intent.attempt}, with other reports or noise")
            self._write(replace(mark, intent=intent))

    def fail(self, phase: int, attempt: int) -> None:
        """Check that an attempt may fail.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.

        Raises:
            StoreWentBack: The phase, or a later one, was released or about to be released.
        """
        self._refuse_other(self.read(), phase, f"attempt {attempt}, with too few reports")

    def _refuse_other(self, mark: Mark | None, phase: int, now: str) -> None:
        if mark is not None and mark.intent is not None and mark.intent.phase >= phase:
            raise StoreWentBack(
                f"storage: the store closes phase {phase} in {now}, but phase {mark.intent.phase} was "
                f"released, or about to be, in attempt {mark.intent.attempt}, according to {self.path}. "
                f"{_REMEDY}"
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the directory, since the file itself is replaced on every write."""
        try:
            directory = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._broken(error) from error
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)

    def _write(self, mark: Mark) -> None:
        try:
            replace_private(self.path, encode(mark))
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> StorageError:
        return StorageError(
            f"storage: {self.path}: {error.strerror}; [keys] progress must name a file that can be written"
        )


class WatchedStore(Store):
    """A store that is compared with its progress file in every transaction.

    Args:
        store: The store.
        watermark: The progress file.
    """

    def __init__(self, store: Store, watermark: Watermark) -> None:
        self._store = store
        self._watermark = watermark

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction of the store.

        Raises:
            StoreWentBack: The store is behind the progress file.
        """
        mark = self._watermark.read()
        with self._store.transaction() as transaction:
            noticing = _Noticing(transaction, _position(transaction.latest()))
            self._watermark.check(mark, noticing.reached)
            yield cast("Transaction", noticing)
        if mark is None or noticing.reached.rank > mark.furthest.rank:
            self._watermark.seen(noticing.reached)

    def forget(self) -> bool:
        """Erase deleted rows from the disk, see `Store.forget`."""
        return self._store.forget()

    def now(self) -> float | None:
        """Return the time of the store's own clock, see `Store.now`."""
        return self._store.now()

    def close(self) -> None:
        """Close the store."""
        self._store.close()


class _Noticing:
    """A transaction that keeps track of the position of its store, to save a query for it at the end."""

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
