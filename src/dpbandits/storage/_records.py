"""The records that a store keeps.

Every record is frozen. Bodies are JSON from `dpbandits.protocol.encode`. In the service, sealed reports are
ciphertext.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._checks import one_of, whole
from dpbandits.errors import Refused

ATTEMPT_STATES = ("gathering", "playing", "opening", "collecting", "closed", "released", "failed", "done")
"""The states of an attempt. rounds/_machine.py and service/shuffler define the transitions."""

FINAL_STATES = ("released", "failed", "done")


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """The study that a store belongs to. A store serves one study.

    Attributes:
        digest: The name of the study (`Study.name`).
        body: JSON that the owner of the store needs to continue the study.
    """

    digest: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """The plan of a phase, journalled before the phase is played and before any client receives the plan.

    Attributes:
        phase: The number of the phase, counted from 1.
        digest: The digest of the plan.
        body: The encoded plan.
    """

    phase: int
    digest: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """The release of a phase.

    Attributes:
        phase: The number of the phase, counted from 1.
        attempt: The number of the attempt that it came from.
        body: The encoded release.
    """

    phase: int
    attempt: int
    body: bytes


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """What the learner knows after a phase (`dpbandits.protocol.Progress`), journalled after the update.

    Attributes:
        phase: The number of the phase, counted from 1.
        body: The encoded record.
    """

    phase: int
    body: bytes


ORDERS = ("pause", "resume", "close")
"""The orders that the operator of a study may give. rounds/_orders.py says what each one does."""


@dataclass(frozen=True, kw_only=True)
class OrderRecord:
    """An order of the operator.

    Attributes:
        number: The number of the order, counted from 1. The last order is in force.
        order: One of `ORDERS`.
        since: When the order was given, in seconds since 1970.
    """

    number: int
    order: str
    since: float

    def __post_init__(self) -> None:
        whole(1, number=self.number)
        one_of(ORDERS, order=self.order)


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One attempt to complete a phase.

    Attributes:
        phase: The number of the phase, counted from 1.
        number: The number of the attempt at this phase, counted from 1.
        state: One of `ATTEMPT_STATES`.
        joined: How many clients have joined.
        played: How many rounds have been played.
        since: When a state with a deadline began, in seconds since 1970.
        seconds: How long that state lasts; None if it has no deadline.
    """

    phase: int
    number: int
    state: str
    joined: int = 0
    played: int = 0
    since: float = 0.0
    seconds: float | None = None

    def __post_init__(self) -> None:
        whole(1, phase=self.phase)
        whole(1, attempt=self.number)
        one_of(ATTEMPT_STATES, state=self.state)

    @property
    def over(self) -> bool:
        """Whether the attempt is in a final state."""
        return self.state in FINAL_STATES

    def remaining(self, now: float) -> float | None:
        """Return the seconds until the deadline; None if there is no deadline.

        The result is at most `seconds`, even if the clock was set back in the meantime.

        Args:
            now: The time in seconds since 1970.
        """
        if self.seconds is None:
            return None
        return min(self.since + self.seconds - now, self.seconds)


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """A client's single participation in a study, written before the client receives its task.

    Attributes:
        client: The name of the client.
        phase: The phase that the client joined.
        attempt: The number of the attempt that it joined.
        pseudonym: The name under which it reports.
        report: The digest of the report that was accepted from it; None before.
    """

    client: str
    phase: int
    attempt: int
    pseudonym: str
    report: str | None = None


@dataclass(frozen=True, kw_only=True)
class StoredReport:
    """A report of a running phase, as it is stored until the release.

    Attributes:
        phase: The phase.
        attempt: The number of the attempt.
        pseudonym: The client's pseudonym.
        digest: A digest of the report. A repeated report has the same digest.
        sealed: The report, or the share of it for the owner of this store.
        relayed: In the shuffler's split mode, the share for the coordinator, which the shuffler cannot open.
    """

    phase: int
    attempt: int
    pseudonym: str
    digest: str
    sealed: bytes
    relayed: bytes = b""


def check_expiry(expires: float | None, now: float | None) -> None:
    """Raise `Refused` if an enrolment code has expired. If one of the times is None, nothing is checked."""
    if expires is not None and now is not None and now > expires:
        raise Refused("code-expired", "the time to enrol with this code is over")
