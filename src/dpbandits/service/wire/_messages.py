"""The JSON messages of the coordinator's HTTP API; _shuffler_messages.py has those of the shuffler.

A request with an unknown field is rejected (`Strict`). Later versions may add fields to a reply, so a decoder
of replies ignores fields that it does not know (`Wire`).

The docstrings are also the descriptions in `/openapi.json`. The field `study` of a reply is the digest of the
study's terms.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from dpbandits.answers import Answer
from dpbandits.errors import Refused
from dpbandits.protocol import Progress
from dpbandits.service.wire._modes import MODES
from dpbandits.storage import ATTEMPT_STATES

Digest = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$", description="hexadecimal SHA-256")]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]
Phase = Annotated[int, msgspec.Meta(ge=1, le=10**6)]

PlanText = Annotated[
    str,
    msgspec.Meta(
        description="the JSON of a plan, as a string; its UTF-8 bytes are the bytes that the digest covers",
        extra_json_schema={
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": "#/components/schemas/Plan"},
        },
    ),
]
StoredPlan = Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/Plan"})]
StoredRelease = Annotated[
    msgspec.Raw, msgspec.Meta(extra_json_schema={"$ref": "#/components/schemas/Release"})
]
TaskState = Literal["wait", "joined", "report", "over", "ended"]


def _one_of(*names: str) -> msgspec.Meta:
    """Return the description of a string that has one of these values."""
    return msgspec.Meta(extra_json_schema={"enum": list(names)})


CollectionState = Annotated[str, _one_of("collecting", "closed", "summed", "failed")]
PlayState = Annotated[str, _one_of("beginning", *ATTEMPT_STATES, "paused", "ended")]
Order = Literal["pause", "resume", "close"]
ShufflerMode = Annotated[str, _one_of(*MODES)]

ERROR_CODES = (
    "already-asked",
    "already-enrolled",
    "already-kept",
    "already-reported",
    "ambiguous",
    "changed",
    "changed-request",
    "closed",
    "closed-study",
    "code-expired",
    "elsewhere",
    "failure",
    "no-collection",
    "no-place",
    "not-closed",
    "not-found",
    "not-joined",
    "not-playing",
    "other-study",
    "other-terms",
    "outside-terms",
    "too-fast",
    "too-large",
    "too-many-rounds",
    "unavailable",
    "unknown-credential",
    "unreadable",
    "wrong-method",
    "wrong-role",
)
"""All codes of `ErrorReply`."""


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """The base class of messages: an immutable JSON object. A decoder ignores unknown fields."""


class Strict(Wire, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of requests and of terms: a decoder rejects unknown fields."""


class ErrorReply(Wire, frozen=True, kw_only=True):
    """Why a request was refused.

    `error` is one of a fixed list of codes, for example `wrong-role`; `message` is a sentence for people. A
    later version may have further codes.
    """

    error: Annotated[str, _one_of(*ERROR_CODES)]
    message: str

    def refusal(self) -> Refused:
        """Return the error for the caller. A hostile party may have chosen the texts, so they are limited."""
        return Refused(printable(self.error, 100), printable(self.message, 1000))


def printable(text: str, most: int) -> str:
    """Return the first characters of another party's text, with spaces in place of control characters."""
    return "".join(one if one.isprintable() else " " for one in text[:most])


class RewardRangeReply(Wire, frozen=True, kw_only=True):
    """The range of single rewards in the study's units, which clients map to [−bound, bound].

    A client clips each reward r to [low, high], and reports averages of
    bound·(2r − low − high)/(high − low).
    """

    low: float
    high: float
    bound: float


class StudyReply(Wire, frozen=True, kw_only=True):
    """The public description of a study.

    `study` is the SHA-256 of the text `terms`. `signature` is the signature of that text, or empty if the
    terms are not signed. `features` lists what a client must support, for example `local-lattice/laplace` for
    a mechanism with a noise distribution, and `mode/split`. A client that lacks a feature does not enrol.
    `conformance` is true if this server only tests clients; its terms say so, too. `rewards` is the range of
    rewards that clients map to the study's scale, with the feature `reward-range`; null if rewards are on
    this scale already.
    """

    study: Digest
    terms: Annotated[
        str,
        msgspec.Meta(
            description="the JSON of the terms, as a string; `study` is the digest of its UTF-8 bytes",
            extra_json_schema={
                "contentMediaType": "application/json",
                "contentSchema": {"$ref": "#/components/schemas/Terms"},
            },
        ),
    ]
    signature: str
    features: list[str] = []
    conformance: bool = False
    rewards: RewardRangeReply | None = None
    actions: int
    dimension: int
    horizon: int


class EnrolmentRequest(Strict, frozen=True, kw_only=True):
    """The number of enrolment codes to create.

    Clients may enrol with them for `valid_seconds`; null means without a limit.
    """

    count: Annotated[int, msgspec.Meta(ge=1, le=100_000)]
    valid_seconds: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None


class EnrolmentReply(Wire, frozen=True, kw_only=True):
    """One-time enrolment codes. They are returned only here: the coordinator stores only their hashes."""

    study: Digest
    codes: list[str]


class ClientRequest(Strict, frozen=True, kw_only=True):
    """The hash of the token that the client chose and will authenticate with."""

    token: Digest


class ClientReply(Wire, frozen=True, kw_only=True):
    """The client is enrolled."""

    study: Digest


class TaskRequest(Strict, frozen=True, kw_only=True):
    """A client's request for its task.

    `pseudonym` is the hash of a ticket that the client chose. `have` is the digest of the plan that the
    client already has, or empty.
    """

    pseudonym: Digest
    have: str = ""


class TaskReply(Wire, frozen=True, kw_only=True):
    """The state of a client.

    `state` is `wait` (not in a cohort: poll again after `poll_seconds`), `joined` (in the cohort, which waits
    for other clients or until the phase has been played), `report` (send the report now), `over` (the attempt
    is closed), or `ended` (not in a cohort, and no more clients will be asked). Sums of reports are taken
    modulo 2^`sum_bits`. The plan determines `sum_bits`; it is included for clients that do not compute it.

    `seconds_left` is the time until the attempt is closed, in state `report`. `reported` says whether the
    coordinator has the client's report. A field is null if it does not apply in this state or is not known:
    `seconds_left` before reports are due, `plan` if the client has it, `reported` in the shuffle model, in
    which reports go to the shuffler.
    """

    study: Digest
    state: TaskState
    poll_seconds: float
    phase: int | None = None
    attempt: int | None = None
    plan_digest: Digest | None = None
    plan: PlanText | None = None
    sum_bits: int | None = None
    seconds_left: float | None = None
    reported: bool | None = None


class Run(Wire, frozen=True, kw_only=True):
    """One action, played for `plays` consecutive rounds. `label` is its name, or empty if it has none."""

    action: int
    plays: int
    label: str = ""


class ScheduleReply(Wire, frozen=True, kw_only=True):
    """The runs of a whole phase, in the order of play.

    `state` is `playing` if the phase is being played now. `played` of its `rounds` rounds have been played.
    """

    study: Digest
    state: PlayState
    phase: int
    attempt: int
    rounds: int
    played: int
    runs: list[Run]


class PlayReply(Wire, frozen=True, kw_only=True):
    """The action to play now, with its feature vector and its name; null while nothing is to be played."""

    study: Digest
    state: PlayState
    phase: int
    attempt: int
    round: int
    action: int | None
    vector: list[float]
    label: str = ""


class RoundsRequest(Strict, frozen=True, kw_only=True):
    """The total number of rounds of an attempt played so far. Sending it again has no effect."""

    phase: Phase
    attempt: Phase
    played: Count


class StatusReply(Wire, frozen=True, kw_only=True):
    """The progress of the study, with nothing about any single client.

    `trouble` says why the last step failed, for example that the shuffler cannot be reached or sent
    inconsistent sums. It is empty after a step that succeeded. `minimum` is the fewest reports with which the
    phase is released. `reports` counts the reports of the attempt; it is null while only the shuffler knows
    their number. `deadline` is when the time to join or to report ends, in seconds since 1970, and
    `seconds_left` is the time until then; both are null if there is no deadline. `waiting` says in words what
    the study waits for.
    `excluded` counts the reports of all attempts that were left out of the sums, because their parts could
    not be read or, in mode `verified`, because their proofs do not hold.
    `standing` is `running`, `paused` or `closed`, as the operator ordered.
    `fit` says in words whether the features explain what the fit test measured, and `confirmation` how the
    finalists compare with the option in use today. Each is empty until its cohort has been released, and in a
    study without a fit test or a confirmation. `/v1/results` has the numbers of both.
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
    minimum: int = 0
    reports: int | None = None
    deadline: float | None = None
    seconds_left: float | None = None
    waiting: str = ""
    excluded: int = 0
    standing: str = "running"
    fit: str = ""
    confirmation: str = ""


class OrderRequest(Strict, frozen=True, kw_only=True):
    """An order of the operator: `pause`, `resume` or `close`.

    Closing is final; repeating an order is not an error.
    """

    order: Order


class ProgressReply(Wire, frozen=True, kw_only=True):
    """One record per phase that the learner has processed.

    Every record is computed from releases only, with nothing about any single client.
    """

    study: Digest
    phases: list[Progress]


class GuaranteeReply(Wire, frozen=True, kw_only=True):
    """The (ε, δ) guarantee of a study if one client is replaced, and what it depends on (`needs`)."""

    trust: str
    epsilon: float
    delta: float
    neighbouring: str
    accountant: str
    needs: str


class PhaseResult(Wire, frozen=True, kw_only=True):
    """The plan and the release of a phase, as stored.

    `plausible` is false if the released means are outside the range that honest clients can cause. `labels`
    are the names of the plan's actions; empty if they have none.
    """

    phase: int
    attempt: int
    plausible: bool
    plan: StoredPlan
    release: StoredRelease
    labels: list[str] = []


class ResultsReply(Wire, frozen=True, kw_only=True):
    """The results of a study: the remaining actions, the guarantee, every phase, and the answer.

    `answer` names the best option by the estimate from all phases together, with intervals; it is null before
    the first release. `estimate` is the estimate from the last phase alone. `learning_over` is whether no
    more clients are asked. `needed` says what it would take to decide more; `needed_participants` is the
    number of clients that it mentions. `assumes` lists the assumptions of the intervals.
    """

    study: Digest
    ended: bool
    active: list[int]
    estimate: list[float]
    guarantee: GuaranteeReply | None
    phases: list[PhaseResult]
    answer: Answer | None = None
    learning_over: bool = False
    needed: str = ""
    needed_participants: int | None = None
    assumes: str = ""
