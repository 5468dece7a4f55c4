"""`SiteLedger`: which users of a site have taken part, and what the site has answered, in one SQLite file.

The rules hold after any crash:

- A user is marked as used before the user's data are read, and stays marked. The primary key refuses a
  second mark.
- An answer is stored before it is sent, and is never replaced. A repeated request gets the same bytes.
- A phase has one plan. A request with another plan for the same phase is refused.

Do not restore the file from an old copy: users who were marked after the copy would be asked again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from dpbandits.errors import InvalidValue, Refused, StorageError

_SCHEMA = """
CREATE TABLE IF NOT EXISTS study (one INTEGER PRIMARY KEY CHECK (one = 1), terms TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS asks (
    phase INTEGER NOT NULL, attempt INTEGER NOT NULL, plan TEXT NOT NULL, users INTEGER NOT NULL,
    member_group TEXT NOT NULL, answer BLOB, PRIMARY KEY (phase, attempt)
);
CREATE TABLE IF NOT EXISTS used (
    user TEXT PRIMARY KEY, phase INTEGER NOT NULL, attempt INTEGER NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, kw_only=True)
class KnownAsk:
    """A request that the site has begun to answer.

    Attributes:
        plan: The digest of the plan.
        users: How many users were asked for.
        group: The name of the site's part in the attempt.
        answer: The bytes of the answer; None if none is stored yet.
    """

    plan: str
    users: int
    group: str
    answer: bytes | None


class SiteLedger:
    """The ledger of one site for one study.

    Args:
        path: The SQLite file. It is created with access for its owner only.
        terms: The digest of the study's terms.

    Raises:
        InvalidValue: The ledger belongs to other terms.
        StorageError: The file cannot be opened.
    """

    def __init__(self, path: Path, terms: str) -> None:
        self._path = path
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise StorageError(f"ledger: cannot open {path} ({error.strerror})") from None
        with self._connected() as connection:
            for statement in _SCHEMA.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT OR IGNORE INTO study VALUES (1, ?)", (terms,))
            (found,) = connection.execute("SELECT terms FROM study").fetchone()
        if found != terms:
            raise InvalidValue("ledger", f"a ledger of terms {found[:12]}", f"one of terms {terms[:12]}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that lets one process at a time answer requests. The lock ends with the process."""
        with Path(f"{self._path}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None, timeout=60)) as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
        except sqlite3.IntegrityError:
            raise Refused("already-used", "the ledger already has this user or request") from None
        except sqlite3.Error as error:
            raise StorageError(f"ledger: {self._path} cannot be read or written ({error})") from None

    def _run(self, statement: str, *values: object) -> list[tuple[str, ...]]:
        with self._connected() as connection:
            return connection.execute(statement, values).fetchall()

    def ask(self, phase: int, attempt: int) -> KnownAsk | None:
        """Return the request of an attempt as it was stored; None if the request is new.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
        """
        query = "SELECT plan, users, member_group, answer FROM asks WHERE phase = ? AND attempt = ?"
        with self._connected() as connection:
            row = connection.execute(query, (phase, attempt)).fetchone()
        return None if row is None else KnownAsk(plan=row[0], users=row[1], group=row[2], answer=row[3])

    def plan_of(self, phase: int) -> str | None:
        """Return the digest of the plan of a phase; None if the site was not asked in this phase.

        Args:
            phase: The phase.
        """
        rows = self._run("SELECT plan FROM asks WHERE phase = ? LIMIT 1", phase)
        return rows[0][0] if rows else None

    def unused(self, users: Sequence[str]) -> list[str]:
        """Return the users who have not taken part, in the same order.

        Args:
            users: The users to look up.
        """
        used = {user for (user,) in self._run("SELECT user FROM used")}
        return [user for user in users if user not in used]

    def mark(self, phase: int, attempt: int, ask: KnownAsk, users: Sequence[str]) -> None:
        """Store a new request and mark its users as used, all or none. The marks are durable on return.

        Args:
            phase: The phase.
            attempt: The number of the attempt.
            ask: The request, without an answer.
            users: The users who are marked.

        Raises:
            Refused: `already-used` if one of the users, or the request, is in the ledger.
        """
        with self._connected() as connection:
            values = (phase, attempt, ask.plan, ask.users, ask.group)
            connection.execute("INSERT INTO asks VALUES (?, ?, ?, ?, ?, NULL)", values)
            rows = [(user, phase, attempt) for user in users]
            connection.executemany("INSERT INTO used VALUES (?, ?, ?)", rows)

    def members(self, phase: int, attempt: int) -> list[str]:
        """Return the users of a request, sorted.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
        """
        query = "SELECT user FROM used WHERE phase = ? AND attempt = ? ORDER BY user"
        return [user for (user,) in self._run(query, phase, attempt)]

    def keep(self, phase: int, attempt: int, answer: bytes) -> bytes:
        """Store the answer to a request, unless the request has one.

        Args:
            phase: The phase.
            attempt: The attempt at the phase.
            answer: The answer.

        Returns:
            The stored answer.
        """
        where = "WHERE phase = ? AND attempt = ?"
        with self._connected() as connection:
            update = f"UPDATE asks SET answer = ? {where} AND answer IS NULL"
            connection.execute(update, (answer, phase, attempt))
            (kept,) = connection.execute(f"SELECT answer FROM asks {where}", (phase, attempt)).fetchone()
        return bytes(kept)
