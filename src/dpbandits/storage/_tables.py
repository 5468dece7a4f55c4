"""The tables of the newest schema, for building queries; _migrations.py creates them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Double, LargeBinary, MetaData, String, Table

METADATA = MetaData()

STUDY = Table(
    "study",
    METADATA,
    Column("only", BigInteger, primary_key=True),
    Column("digest", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

PLANS = Table(
    "plans",
    METADATA,
    Column("phase", BigInteger, primary_key=True),
    Column("digest", String, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

RELEASES = Table(
    "releases",
    METADATA,
    Column("phase", BigInteger, primary_key=True),
    Column("attempt", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

PROGRESS = Table(
    "progress",
    METADATA,
    Column("phase", BigInteger, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("phase", BigInteger, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("state", String, nullable=False),
    Column("joined", BigInteger, nullable=False),
    Column("played", BigInteger, nullable=False),
    Column("since", Double, nullable=False),
    Column("seconds", Double),
)

CODES = Table(
    "codes",
    METADATA,
    Column("code", String, primary_key=True),
    Column("token", String, unique=True),
)

LEDGER = Table(
    "ledger",
    METADATA,
    Column("client", String, primary_key=True),
    Column("phase", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("pseudonym", String, nullable=False, unique=True),
    Column("report", String),
)

REPORTS = Table(
    "reports",
    METADATA,
    Column("pseudonym", String, primary_key=True),
    Column("phase", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("relayed", LargeBinary, nullable=False),
    Column("digest", String, nullable=False),
)

BATCHES = Table(
    "batches",
    METADATA,
    Column("phase", BigInteger, primary_key=True),
    Column("attempt", BigInteger, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)
