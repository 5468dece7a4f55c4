"""Schema migrations: numbered steps from an empty or older schema to the newest, each in its own transaction.

A step and its number are committed together, so a process that is killed during a step leaves the schema
either as before the step or as after the step. Once a step was part of a published version, it is never
edited: every change is a new step. Several workers may open a store at once: one migrates, the others wait.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, Engine, inspect, text

from dpbandits.errors import InvalidValue

Hook = Callable[[str], None]

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        'CREATE TABLE study ("only" BIGINT PRIMARY KEY, digest TEXT NOT NULL, body {bytes} NOT NULL)',
        "CREATE TABLE plans (phase BIGINT PRIMARY KEY, digest TEXT NOT NULL, body {bytes} NOT NULL)",
        "CREATE TABLE releases (phase BIGINT PRIMARY KEY, attempt BIGINT NOT NULL, body {bytes} NOT NULL)",
        "CREATE TABLE attempts (phase BIGINT NOT NULL, number BIGINT NOT NULL, state TEXT NOT NULL, "
        "joined BIGINT NOT NULL, played BIGINT NOT NULL, since DOUBLE PRECISION NOT NULL, "
        "seconds DOUBLE PRECISION, PRIMARY KEY (phase, number))",
        "CREATE TABLE codes (code TEXT PRIMARY KEY, token TEXT UNIQUE)",
        "CREATE TABLE ledger (client TEXT PRIMARY KEY, phase BIGINT NOT NULL, attempt BIGINT NOT NULL, "
        "pseudonym TEXT NOT NULL UNIQUE, report TEXT)",
        "CREATE INDEX ledger_by_attempt ON ledger (phase, attempt)",
        "CREATE TABLE reports (pseudonym TEXT PRIMARY KEY, phase BIGINT NOT NULL, attempt BIGINT NOT NULL, "
        "sealed {bytes} NOT NULL)",
    ),
    (  # for the shuffler's split mode: shares for the coordinator, and batches that it may fetch again
        "ALTER TABLE reports ADD COLUMN relayed {bytes} NOT NULL DEFAULT {no_bytes}",
        "CREATE TABLE batches (phase BIGINT NOT NULL, attempt BIGINT NOT NULL, body {bytes} NOT NULL, "
        "PRIMARY KEY (phase, attempt))",
    ),
    (  # accepting a report no longer writes to the ledger, which is updated when reports are deleted
        "ALTER TABLE reports ADD COLUMN digest TEXT NOT NULL DEFAULT ''",
        "UPDATE reports SET digest = (SELECT report FROM ledger WHERE ledger.pseudonym = reports.pseudonym)",
        "UPDATE ledger SET report = NULL WHERE pseudonym IN (SELECT pseudonym FROM reports)",
        "CREATE INDEX reports_by_attempt ON reports (phase, attempt)",
    ),
    (  # what the learner knows after each phase; opening a study adds the records of earlier phases
        "CREATE TABLE progress (phase BIGINT PRIMARY KEY, body {bytes} NOT NULL)",
    ),
    (  # until when clients may enrol with a code, in seconds since 1970
        "ALTER TABLE codes ADD COLUMN expires DOUBLE PRECISION",
    ),
    (  # orders of the operator: pause, resume, close
        'CREATE TABLE orders (number BIGINT PRIMARY KEY, "order" TEXT NOT NULL, '
        "since DOUBLE PRECISION NOT NULL)",
    ),
)

NEWEST = len(MIGRATIONS)
_LOCK = 7_302_981  # an arbitrary key: workers that open the same PostgreSQL database take this advisory lock


def migrate(engine: Engine, *, newest: int = NEWEST, hook: Hook = lambda _step: None) -> None:
    """Upgrade the schema to version `newest`. The hook is called before and after each commit, for tests."""
    while _step(engine, newest, hook):
        pass


def version(connection: Connection) -> int:
    """Return the number of the last migration that was applied; 0 for an empty database."""
    if not inspect(connection).has_table("schema_version"):
        return 0
    return int(connection.execute(text("SELECT max(version) FROM schema_version")).scalar_one())


def _step(engine: Engine, newest: int, hook: Hook) -> bool:
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            # A step may rewrite a large table, and the other workers wait for it.
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SET LOCAL lock_timeout = '300s'"))
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
        done = version(connection)
        if done > NEWEST:
            raise InvalidValue("storage", f"schema version {done}", f"{NEWEST} or older: upgrade dpbandits")
        if done >= newest:
            return False
        _apply(connection, done + 1, hook)
        hook(f"migrate-{done + 1}-before-commit")
    hook(f"migrate-{done + 1}-after-commit")
    return True


def _apply(connection: Connection, number: int, hook: Hook) -> None:
    postgres = connection.dialect.name == "postgresql"
    names = {"bytes": "BYTEA", "no_bytes": "''"} if postgres else {"bytes": "BLOB", "no_bytes": "x''"}
    if number == 1:
        connection.execute(text("CREATE TABLE schema_version (version BIGINT PRIMARY KEY)"))
    for statement in MIGRATIONS[number - 1]:
        connection.execute(text(statement.format(**names)))
        hook(f"migrate-{number}-statement")
    connection.execute(text("INSERT INTO schema_version (version) VALUES (:number)"), {"number": number})
