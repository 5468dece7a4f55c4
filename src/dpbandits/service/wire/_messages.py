"""What goes over HTTP as JSON. Unknown fields are refused; every reply names the study it is of."""

from __future__ import annotations

from typing import Annotated

import msgspec

from dpbandits.protocol import Progress

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$", description="hexadecimal SHA-256")]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Phase = Annotated[int, msgspec.Meta(ge=1, le=10**6)]

SHARES_AT_ONCE = 1000  # of one page that a shuffler sends
TASK_STATES = ("wait", "joined", "report", "over", "ended")


class Wire(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A frozen JSON object."""


class ErrorReply(Wire, frozen=True, kw_only=True):
    """Why not: one of a few words, and a sentence."""

    error: str
    message: str


class StudyReply(Wire, frozen=True, kw_only=True):
    """What everybody may know of a study.

    `terms` is the text whose SHA-256 is `study`; `signature` is its signature, or empty if nobody signed it.
    """

    study: Digest
    terms: str
    signature: str
    actions: int
    dimension: int
    horizon: int


class EnrolmentRequest(Wire, frozen=True, kw_only=True):
    """How many clients may enrol."""

    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]


class EnrolmentReply(Wire, frozen=True, kw_only=True):
    """One-time codes, which are told this once; what is kept is their hashes."""

    study: Digest
    codes: list[str]


class ClientRequest(Wire, frozen=True, kw_only=True):
    """The hash of the token by which the client will be known; it chooses the token itself."""

    token: Digest


class ClientReply(Wire, frozen=True, kw_only=True):
    """The client is enrolled."""

    study: Digest


class TaskRequest(Wire, frozen=True, kw_only=True):
    """A pseudonym, the hash of a ticket that the client chose, and the plan that it has already, if any."""

    pseudonym: Digest
    have: str = ""


class TaskReply(Wire, frozen=True, kw_only=True):
    """Where the client stands.

    `wait`: not asked, ask again; `joined`: asked, the phase is being played; `report`: send it now;
    `over`: the attempt is closed; `ended`: the study is, and nobody will be asked. Sums of answers are kept
    modulo 2^`sum_bits`: it follows from the plan, and is told for those who do not compute it.
    """

    study: Digest
    state: str
    poll_seconds: float
    phase: int = 0
    attempt: int = 0
    plan_digest: str = ""
    plan: msgspec.Raw
    sum_bits: int = 0
    reported: bool = False


class Run(Wire, frozen=True, kw_only=True):
    """Play an action for so many rounds in a row."""

    action: int
    plays: int


class ScheduleReply(Wire, frozen=True, kw_only=True):
    """What a whole phase plays, in this order; `state` says whether now is the time."""

    study: Digest
    state: str
    phase: int
    attempt: int
    rounds: int
    played: int
    runs: list[Run]


class PlayReply(Wire, frozen=True, kw_only=True):
    """The action to play now; none while nothing is to be played."""

    study: Digest
    state: str
    phase: int
    attempt: int
    round: int
    action: int | None
    vector: list[float]


class RoundsRequest(Wire, frozen=True, kw_only=True):
    """How many rounds of an attempt were played so far, in all: telling it twice changes nothing."""

    phase: Phase
    attempt: Phase
    played: Count


class StatusReply(Wire, frozen=True, kw_only=True):
    """How far the study is; nothing about any client.

    `trouble` says why the last step could not be taken, such as a shuffler that is away or that lies; it is
    empty while all is well.
    """

    study: Digest
    state: str
    phase: int
    attempt: int
    failed_attempts: int
    cohort: int
    joined: int
    rounds_played: int
    rounds_repeated: int
    actions_left: int
    releases: int
    trouble: str = ""


class ProgressReply(Wire, frozen=True, kw_only=True):
    """One record per phase that was learnt.

    Everything in a record follows from the releases; nothing is about any client.
    """

    study: Digest
    phases: list[Progress]


class GuaranteeReply(Wire, frozen=True, kw_only=True):
    """What holds for one client replaced."""

    trust: str
    epsilon: float
    delta: float
    neighbouring: str
    accountant: str
    needs: str


class PhaseResult(Wire, frozen=True, kw_only=True):
    """A phase's plan and release, as they are kept.

    `plausible` is false if the released means lie further out than honest clients can bring them.
    """

    phase: int
    attempt: int
    plausible: bool
    plan: msgspec.Raw
    release: msgspec.Raw


class ResultsReply(Wire, frozen=True, kw_only=True):
    """All that was learnt."""

    study: Digest
    ended: bool
    active: list[int]
    estimate: list[float]
    guarantee: GuaranteeReply | None
    phases: list[PhaseResult]


class KeyReply(Wire, frozen=True, kw_only=True):
    """The shuffler's public key and how it works."""

    key: str
    mode: str


class CollectionRequest(Wire, frozen=True, kw_only=True):
    """Open a collection: the study's terms, the plan, and the pseudonyms of the cohort."""

    study: Digest
    terms: str
    signature: str
    plan: msgspec.Raw
    members: list[Digest]


class CollectionReply(Wire, frozen=True, kw_only=True):
    """`collecting`; `closed`, with shares to be fetched; `summed`, with the sums; or `failed`: too few.

    In split mode `checksum` names the set that was summed: the SHA-256 over the pseudonym of each report and
    the SHA-256 of its sealed share for the coordinator, in the order of pseudonyms.
    """

    study: Digest
    phase: int
    attempt: int
    state: str
    reports: int
    sums: list[int] = []
    checksum: str = ""


class SharesReply(Wire, frozen=True, kw_only=True):
    """Pairs of pseudonym and sealed share, for the coordinator, up to `SHARES_AT_ONCE` of them.

    In JSON a sealed share is base64. Ask again with `after` set to the last pseudonym until a page is empty.
    """

    study: Digest
    shares: list[tuple[str, bytes]]


class SumsRequest(Wire, frozen=True, kw_only=True):
    """Add up all but these, whose other share could not be read."""

    without: list[Digest]
