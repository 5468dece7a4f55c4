from ._binding import (
    PURPOSE as PURPOSE,
    bound_share as bound_share,
    set_checksum as set_checksum,
    unbound_share as unbound_share,
)
from ._messages import (
    ERROR_CODES as ERROR_CODES,
    ClientReply as ClientReply,
    ClientRequest as ClientRequest,
    EnrolmentReply as EnrolmentReply,
    EnrolmentRequest as EnrolmentRequest,
    ErrorReply as ErrorReply,
    GuaranteeReply as GuaranteeReply,
    OrderRequest as OrderRequest,
    PhaseResult as PhaseResult,
    PlayReply as PlayReply,
    ProgressReply as ProgressReply,
    ResultsReply as ResultsReply,
    RewardRangeReply as RewardRangeReply,
    RoundsRequest as RoundsRequest,
    Run as Run,
    ScheduleReply as ScheduleReply,
    StatusReply as StatusReply,
    StudyReply as StudyReply,
    TaskReply as TaskReply,
    TaskRequest as TaskRequest,
    TaskState as TaskState,
)
from ._modes import (
    MODES as MODES,
    SHARED_MODES as SHARED_MODES,
)
from ._pins import (
    Pins as Pins,
)
from ._proofs import (
    ProvedReports as ProvedReports,
    verification_key as verification_key,
)
from ._report_slot import (
    ReportSlot as ReportSlot,
)
from ._schemas import (
    plan_schemas as plan_schemas,
)
from ._sealing import (
    KeyPair as KeyPair,
    Place as Place,
    PublicKey as PublicKey,
    pem as pem,
    replace_private as replace_private,
    unreadable as unreadable,
    write_private as write_private,
)
from ._shares import (
    split_shares as split_shares,
)
from ._shuffler_messages import (
    SHARES_AT_ONCE as SHARES_AT_ONCE,
    CollectionReply as CollectionReply,
    CollectionRequest as CollectionRequest,
    KeyReply as KeyReply,
    SharesReply as SharesReply,
    SumsRequest as SumsRequest,
    VerifiersReply as VerifiersReply,
)
from ._signing import (
    SigningKey as SigningKey,
    VerifyKey as VerifyKey,
)
from ._statements import (
    RECORD as RECORD,
    STATEMENT as STATEMENT,
    CollectionStatement as CollectionStatement,
    ShufflerStatement as ShufflerStatement,
    Signed as Signed,
    StatementReply as StatementReply,
)
from ._terms import (
    MOST_COHORT as MOST_COHORT,
    PartyTerms as PartyTerms,
    SignedTerms as SignedTerms,
    Terms as Terms,
    new_run as new_run,
    proved_delta as proved_delta,
    read_terms as read_terms,
    terms_of as terms_of,
)
from ._tokens import (
    checked_hash as checked_hash,
    hashed as hashed,
    new_secret as new_secret,
    role_of as role_of,
)
