"""The tables of the newest schema, for building queries. _migrations.py creates them, with constraints."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, Double, LargeBinary, MetaData, String, Table

_METADATA = MetaData()


def _table(name: str, **columns: Any) -> Table:
    return Table(name, _METADATA, *(Column(column, kind) for column, kind in columns.items()))


STUDY = _table("study", only=BigInteger, digest=String, body=LargeBinary)
PLANS = _table("plans", phase=BigInteger, digest=String, body=LargeBinary)
RELEASES = _table("releases", phase=BigInteger, attempt=BigInteger, body=LargeBinary)
PROGRESS = _table("progress", phase=BigInteger, body=LargeBinary)
ORDERS = _table("orders", number=BigInteger, order=String, since=Double)
ATTEMPTS = _table(
    "attempts",
    phase=BigInteger,
    number=BigInteger,
    state=String,
    joined=BigInteger,
    played=BigInteger,
    since=Double,
    seconds=Double,
)
CODES = _table("codes", code=String, token=String, expires=Double)
LEDGER = _table(
    "ledger", client=String, phase=BigInteger, attempt=BigInteger, pseudonym=String, report=String
)
REPORTS = _table(
    "reports",
    pseudonym=String,
    phase=BigInteger,
    attempt=BigInteger,
    sealed=LargeBinary,
    relayed=LargeBinary,
    digest=String,
)
BATCHES = _table("batches", phase=BigInteger, attempt=BigInteger, body=LargeBinary)
