"""What is kept. Every record is frozen; bodies are the protocol's JSON, sealed reports are ciphertext."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits._checks import one_of, whole

ATTEMPT_STATES = ("gathering", "playing", "opening", "collecting", "closed", "released", "failed", "done")
"""In the order of their lives; rounds/_machine.py and service/shuffler say which state follows which."""

FINAL_STATES = ("released", "failed", "done")


@dataclass(frozen=True, kw_only=True)
class StudyRecord:
    """The study that this store belongs to: one store, one study."""

    digest: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class PlanRecord:
    """The plan of a phase, journalled before anything of it is played or told."""

    phase: int
    digest: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """What a phase released, and which attempt it was that did."""

    phase: int
    attempt: int
    body: bytes


@dataclass(frozen=True, kw_only=True)
class ProgressRecord:
    """What the learner knows after a phase (`dpbandits.protocol.Progress`), journalled when it has learnt."""

    phase: int
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try at a phase: how far it is. A state that ends by time began at `since` and lasts `seconds`."""

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
        """Whether nothing more can happen in this attempt."""
        return self.state in FINAL_STATES

    def remaining(self, now: float) -> float | None:
        """Seconds to the deadline, never more than the state lasts, however the clock was set meanwhile."""
        if self.seconds is None:
            return None
        return min(self.since + self.seconds - now, self.seconds)


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """A client's one participation, burned before its task is told.

    `report` is the digest of the bytes that were accepted from it, None before.
    """

    client: str
    phase: int
    attempt: int
    pseudonym: str
    report: str | None = None


@dataclass(frozen=True, kw_only=True)
class NewReport:
    """A report on its way in: what its reader shall open, and what is to be passed on still sealed."""

    phase: int
    attempt: int
    pseudonym: str
    digest: str
    sealed: bytes
    relayed: bytes = b""


@dataclass(frozen=True, kw_only=True)
class StoredReport:
    """A report of a running phase, as sealed as it came."""

    pseudonym: str
    sealed: bytes
    relayed: bytes
