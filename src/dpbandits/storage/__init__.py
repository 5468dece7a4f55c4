"""The journal of plans and releases, the ledger of participation, and the reports of the running phase."""

from dpbandits.errors import InvalidValue
from dpbandits.storage.interface import (
    ACCEPTED,
    CLOSED,
    DIFFERENT,
    REPEATED,
    UNKNOWN,
    Store,
    Transaction,
)
from dpbandits.storage.memory import MemoryStore
from dpbandits.storage.records import (
    Attempt,
    LedgerEntry,
    NewReport,
    PlanRecord,
    ReleaseRecord,
    StoredReport,
    StudyRecord,
)


def open_store(url: str) -> Store:
    """`sqlite:///FILE`, `postgresql://…`, or `memory:` for one that is gone with the process."""
    if url == "memory:":
        return MemoryStore()
    try:
        from dpbandits.storage.sql import SqlStore
    except ImportError:
        remedy = "an installed SQLAlchemy: pip install 'dpbandits[service]'"
        raise InvalidValue("storage", "no such package", remedy) from None
    return SqlStore(url)


__all__ = [
    "ACCEPTED",
    "CLOSED",
    "DIFFERENT",
    "REPEATED",
    "UNKNOWN",
    "Attempt",
    "LedgerEntry",
    "MemoryStore",
    "NewReport",
    "PlanRecord",
    "ReleaseRecord",
    "Store",
    "StoredReport",
    "StudyRecord",
    "Transaction",
    "open_store",
]
