from ._interface import (
    ACCEPTED as ACCEPTED,
    CLOSED as CLOSED,
    DIFFERENT as DIFFERENT,
    REPEATED as REPEATED,
    UNKNOWN as UNKNOWN,
    Store as Store,
    Transaction as Transaction,
)
from ._memory import (
    MemoryStore as MemoryStore,
)
from ._open import (
    open_store as open_store,
)
from ._records import (
    ATTEMPT_STATES as ATTEMPT_STATES,
    ORDERS as ORDERS,
    Attempt as Attempt,
    LedgerEntry as LedgerEntry,
    OrderRecord as OrderRecord,
    PlanRecord as PlanRecord,
    ProgressRecord as ProgressRecord,
    ReleaseRecord as ReleaseRecord,
    StoredReport as StoredReport,
    StudyRecord as StudyRecord,
)
