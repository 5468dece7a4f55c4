"""`SqlStore`: a store in an SQL database: SQLite for one process, or PostgreSQL for several workers.

SQLite runs with a write-ahead log and `synchronous=FULL`, so a committed transaction survives a power cut.
Deleted reports are overwritten (`secure_delete`), and `forget` empties the write-ahead log, which may still
contain them. While another process reads the database, for example a backup, the log cannot be emptied. The
store then logs a warning, and empties the log after the first transaction that ends without another reader,
or when the store is next opened. Every transaction takes the write lock at its start (`BEGIN IMMEDIATE`), so
no transaction fails halfway because it cannot get the lock. The files are created with mode 0600.

On PostgreSQL, transactions run at isolation level READ COMMITTED and lock the rows that they depend on,
always in the same order: the attempt first, then ledger rows sorted by pseudonym. Accepting reports takes a
shared lock on the attempt, and closing the attempt takes an exclusive one. So every accepted report is part
of the release. A statement that waits too long for a lock, or runs too long, fails with `StorageError`, and
the callers retry. So a lock of another session never blocks a worker forever. The options of the URL can set
other times, for example `?options=-c%20lock_timeout%3D20s`.
"""

from __future__ import annotations

import contextlib
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DBAPIError,
    DisconnectionError,
    IntegrityError,
    NoSuchModuleError,
    SQLAlchemyError,
)

from dpbandits.errors import InvalidValue, Refused, StorageError
from dpbandits.storage._interface import Store, Transaction
from dpbandits.storage._migrations import NEWEST, Hook, migrate, version
from dpbandits.storage._private_file import keep_private
from dpbandits.storage._sql_transaction import SqlTransaction

log = logging.getLogger("dpbandits.storage")

_PATIENCE = 30_000  # milliseconds that a transaction waits for the lock
_EMPTYING = 1000  # milliseconds that emptying the log waits for readers; writers are blocked during this time
# Pseudonyms are random, so reports are written to random pages. A page cache of 32 MB keeps these in memory,
# and checkpoints happen only at 40 MB of log, so that a page with many changes is copied to the database
# once. Statement journals stay in memory as well.
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "cache_size=-32000",
    "wal_autocheckpoint=10000",
    "temp_store=MEMORY",
)
# Time-outs of PostgreSQL sessions. A release opens all reports of a phase in one transaction, with statements
# that may take long and pauses between them, so only waiting for a lock is limited tightly.
_SESSION = "-c lock_timeout=5s -c statement_timeout=300s -c idle_in_transaction_session_timeout=900s"
_NOW = "SELECT extract(epoch FROM clock_timestamp())"
_IDLE = 1.0  # seconds after which an unused connection is tested before it is used
_CONNECTING = 10  # seconds until a PostgreSQL server that does not answer counts as unreachable
_EXPLAINED = {  # SQLSTATE of PostgreSQL: what it means here
    "55P03": "another session holds a lock on the same rows; see pg_stat_activity and pg_locks",
    "57014": "a statement took longer than statement_timeout",
}
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}


class SqlStore(Store):
    """A store in an SQL database. Opening it upgrades the schema.

    Args:
        url: `sqlite:///FILE` or `postgresql://…`.
        hook: Called with the name of each migration step, for fault injection.

    Raises:
        InvalidValue: The URL cannot be used, or the schema is of a newer version.
        StorageError: The database cannot be opened.
    """

    def __init__(self, url: str, *, hook: Hook = lambda _step: None) -> None:
        self._engine = _engine(url)
        path = self._engine.url.database or ""
        if self._engine.dialect.name == "sqlite" and path and not path.startswith((":memory:", "file:")):
            keep_private(Path(path))
        self._emptying = threading.Lock()
        # A process that died may have deleted reports without emptying the log, so this is due at the start.
        self._owed = self._engine.dialect.name == "sqlite"
        try:
            migrate(self._engine, hook=hook)
            self._catch_up()
        except BaseException as error:
            self._engine.dispose()
            if isinstance(error, DBAPIError):
                raise StorageError(f"storage: cannot open the database ({_short(error)})") from None
            raise

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction.

        Raises:
            Refused: `changed` if another worker wrote the same rows at the same time.
            StorageError: The database failed; nothing was written.
        """
        try:
            with self._engine.begin() as connection:
                yield SqlTransaction(connection)
        except IntegrityError as error:  # another worker inserted the same row first
            raise Refused("changed", "another worker did this at the same time") from error
        except SQLAlchemyError as error:
            raise StorageError(f"storage: {_short(error)}") from error
        self._catch_up()

    def forget(self) -> bool:
        """Empty the write-ahead log, which may still contain deleted rows; SQLite only."""
        if self._engine.dialect.name != "sqlite":
            return True
        if not self._emptied(_EMPTYING):
            log.warning("log-not-emptied", extra={"kind": "another process uses the store"})
            return False
        return True

    def _catch_up(self) -> None:
        """Empty the log if `forget` could not, without waiting for readers. Later calls try again."""
        if self._owed:
            with contextlib.suppress(StorageError):
                self._emptied(0)

    def _emptied(self, milliseconds: int) -> bool:
        with self._emptying:
            self._owed = True
            try:
                self._owed = self._was_busy(milliseconds)
            except (sqlite3.Error, SQLAlchemyError) as error:
                raise StorageError(f"storage: {_short(error)}") from error
            return not self._owed

    def _was_busy(self, milliseconds: int) -> bool:
        with self._engine.connect() as connection:
            raw = connection.connection.dbapi_connection
            assert raw is not None
            raw.execute(f"PRAGMA busy_timeout={milliseconds}")
            try:
                busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            finally:
                raw.execute(f"PRAGMA busy_timeout={_PATIENCE}")
            return bool(busy)

    def now(self) -> float | None:
        """Return the time of the PostgreSQL server; None for SQLite, which uses the machine's clock."""
        if self._engine.dialect.name == "sqlite":
            return None
        try:
            with self._engine.connect() as connection:
                return float(connection.exec_driver_sql(_NOW).scalar_one())
        except SQLAlchemyError as error:
            raise StorageError(f"storage: {_short(error)}") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


class ReadOnlySqlStore(Store):
    """A store that is only read. It takes no write lock, so the owner of the store can continue to write.

    SQLite may leave an empty log (`-wal`) and its index (`-shm`) next to the file. The owner of the store
    removes them when it next closes the store.

    Args:
        url: As in `SqlStore`.

    Raises:
        InvalidValue: The URL cannot be used, there is no such file, or the schema is of another version.
        StorageError: The database cannot be opened.
    """

    def __init__(self, url: str) -> None:
        self._engine = _engine(url, read_only=True)
        try:
            with self._begun() as connection:
                found = version(connection)
        except SQLAlchemyError as error:
            self._engine.dispose()
            raise StorageError(f"storage: cannot open the database ({_short(error)})") from None
        if found != NEWEST:
            self._engine.dispose()
            expected = f"version {NEWEST}: `dpbandits serve` creates and upgrades it"
            raise InvalidValue("storage", f"schema version {found}", expected)

    @contextmanager
    def _begun(self) -> Iterator[Connection]:
        with self._engine.connect() as connection:
            if self._engine.dialect.name != "sqlite":
                connection = connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction in which all reads see the same state of the store.

        Raises:
            StorageError: The database failed, or the transaction tried to write.
        """
        try:
            with self._begun() as connection:
                yield SqlTransaction(connection)
        except SQLAlchemyError as error:
            raise StorageError(f"storage: {_short(error)}") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _engine(url: str, *, read_only: bool = False) -> Engine:
    scheme, _, rest = url.partition(":")
    if scheme not in _DRIVERS:
        raise InvalidValue("storage", repr(url.split("@")[-1]), "sqlite:///FILE or postgresql://…")
    if scheme == "sqlite" and not rest.startswith("///"):
        raise InvalidValue("storage", repr(url), "sqlite:///FILE")
    if scheme == "sqlite" and read_only:
        rest = _read_only_file(Path(rest.removeprefix("///")))
    try:
        parsed = make_url(f"{_DRIVERS[scheme]}:{rest}")
        engine = create_engine(parsed, **({} if scheme == "sqlite" else _postgresql(parsed)))
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InvalidValue("storage", scheme, f"a database with an installed driver ({error})") from None
    if scheme != "sqlite":
        _test_idle(engine)
    elif read_only:
        event.listen(engine, "connect", _configure_reader)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    else:
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _read_only_file(path: Path) -> str:
    """Return the part of the URL after `sqlite:` that opens an existing file for reading."""
    if not path.is_file():
        raise InvalidValue("storage", path, "an existing store: `dpbandits serve` creates it")
    return f"///file:{quote(str(path.absolute()))}?mode=ro&uri=true"


def _configure_reader(connection: Any, _record: Any) -> None:
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={_PATIENCE}")
    connection.execute("PRAGMA query_only=ON")


def _postgresql(url: URL) -> dict[str, Any]:
    """Return the options of an engine for PostgreSQL. Those of the URL come last and take precedence."""
    given = url.query.get("options", "")
    own = f"{_SESSION} {given if isinstance(given, str) else ' '.join(given)}".strip()
    arguments: dict[str, Any] = {"options": own}
    if "connect_timeout" not in url.query:
        arguments["connect_timeout"] = _CONNECTING
    return {"connect_args": arguments}


def _test_idle(engine: Engine) -> None:
    """Test a connection of PostgreSQL before it is used, unless it was used within the last second.

    So no request fails because the server was restarted between two transactions. A test every time, as with
    `pool_pre_ping`, would add a round trip to the three to five of a poll.
    """

    def note_use(_connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()

    def test(connection: Any, record: Any, _proxy: Any) -> None:
        if time.monotonic() - record.info.get("used", math.inf) > _IDLE:
            try:
                engine.dialect.do_ping(connection)
            except engine.dialect.loaded_dbapi.Error as error:
                raise DisconnectionError from error  # SQLAlchemy tries another connection

    event.listen(engine, "checkin", note_use)
    event.listen(engine, "checkout", test)


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not start or end transactions itself
    for pragma in (*_PRAGMAS, f"busy_timeout={_PATIENCE}"):
        connection.execute(f"PRAGMA {pragma}")


def _short(error: SQLAlchemyError | sqlite3.Error) -> str:
    """Return the driver's message without the statement and its parameters, which may contain reports."""
    original = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
    if original is None:
        return type(error).__name__
    told = f"{type(original).__name__}: {original}".split("\n")[0]
    explained = _EXPLAINED.get(getattr(original, "sqlstate", None) or "")
    return told if explained is None else f"{told}: {explained}"
