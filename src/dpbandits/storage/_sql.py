"""The store in a SQL database: SQLite in a file for one process, PostgreSQL for several workers.

SQLite runs with a write-ahead log and `synchronous=FULL`: what a transaction has ended with survives a
power cut. Deleted reports are overwritten (`secure_delete`), and `forget` empties the log. While somebody
else reads, such as a backup, the log cannot be emptied: that is told in the logs, and caught up after the
first transaction that ends when nobody reads any more, or when the store is opened next.
Every transaction takes the write lock when it begins (`BEGIN IMMEDIATE`), so none fails half-way for it.

On PostgreSQL transactions read committed rows and lock what they decide on, in one order: the attempt, then
ledger rows sorted by pseudonym. Taking reports in shares the attempt's lock; closing it needs it alone. So no
report is accepted that a release has not seen.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError, SQLAlchemyError

from dpbandits.errors import InvalidValue, Refused, StorageError
from dpbandits.storage._interface import Store, Transaction
from dpbandits.storage._migrations import Hook, migrate
from dpbandits.storage._sql_transaction import SqlTransaction

log = logging.getLogger("dpbandits.storage")

_PATIENCE = 30_000  # milliseconds for which a transaction waits for those of others
_EMPTYING = 1000  # milliseconds for which emptying the log waits for readers: nobody can write meanwhile
# Names are random, so reports are written all over the pages: these stay in memory (32 MB), and are moved
# from the log to their place when many are there (40 MB), each once for all its changes. What a statement
# would need to be undone stays in memory as well.
_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "secure_delete=ON",
    "cache_size=-32000",
    "wal_autocheckpoint=10000",
    "temp_store=MEMORY",
)
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "sqlite": "sqlite"}


class SqlStore(Store):
    """A store behind a SQLAlchemy URL; opening it migrates its schema."""

    def __init__(self, url: str, *, hook: Hook = lambda _step: None) -> None:
        self._engine = _engine(url)
        self._emptying = threading.Lock()
        self._owed = self._engine.dialect.name == "sqlite"  # whoever had it before may have died owing it
        try:
            migrate(self._engine, hook=hook)
            self._catch_up()
        except BaseException as error:
            self._engine.dispose()
            if isinstance(error, DBAPIError):
                raise StorageError(f"storage: cannot open it ({_short(error)})") from None
            raise

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """All of it, durably, or nothing. What the database cannot do is a `StorageError`."""
        try:
            with self._engine.begin() as connection:
                yield SqlTransaction(connection)
        except IntegrityError as error:  # another worker was faster: the rules of the interface held
            raise Refused("changed", "another worker did this at the same time") from error
        except SQLAlchemyError as error:
            raise StorageError(f"storage: {_short(error)}") from error
        self._catch_up()

    def forget(self) -> bool:
        """Overwrite what the write-ahead log still holds of deleted rows; SQLite only."""
        if self._engine.dialect.name != "sqlite":
            return True
        if not self._emptied(_EMPTYING):
            log.warning("log-not-emptied", extra={"kind": "somebody else uses the store"})
            return False
        return True

    def _catch_up(self) -> None:
        """What `forget` could not do, without waiting for anybody; if it cannot be done now, then later."""
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

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def _engine(url: str) -> Engine:
    scheme, _, rest = url.partition(":")
    if scheme not in _DRIVERS:
        raise InvalidValue("storage", repr(url.split("@")[-1]), "sqlite:///FILE or postgresql://…")
    if scheme == "sqlite" and not rest.startswith("///"):
        raise InvalidValue("storage", repr(url), "sqlite:///FILE")
    options: dict[str, Any] = {"pool_pre_ping": True} if scheme != "sqlite" else {}
    try:
        engine = create_engine(f"{_DRIVERS[scheme]}:{rest}", **options)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise InvalidValue("storage", scheme, f"a database that can be used here ({error})") from None
    if scheme == "sqlite":
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _configure_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not begin or end transactions by itself
    for pragma in (*_PRAGMAS, f"busy_timeout={_PATIENCE}"):
        connection.execute(f"PRAGMA {pragma}")


def _short(error: SQLAlchemyError | sqlite3.Error) -> str:
    """The driver's own words, without the statement and its parameters."""
    original = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
    return (
        type(error).__name__ if original is None else f"{type(original).__name__}: {original}".split("\n")[0]
    )
