"""What the parties send one another. Every value is frozen and goes through JSON without loss.

    Plan     server → everybody   what to play, whom to ask, and which mechanism reports pass through
    Report   client → shuffler    one client's randomized report, packed into bytes
    Batch    shuffler → server    all reports after S
    Release  kept for ever        the private means: all that the learner ever sees

Each message names the plan that it belongs to by the plan's digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix, whole
from dpbandits.errors import InvalidValue, ProtocolError
from dpbandits.privacy import MOST_CLIENTS, Mechanism, checked_entries
from dpbandits.protocol._codec import digest

MOST_PLAYS = 10**15
LARGEST_ACTION = 2**40
MOST_ACTIONS = 2**20
"""Actions that one phase plays."""
MOST_RANK = 2**20
MOST_PHASES = 2**20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One phase: play `support[i]` for `plays[i]` rounds, then ask a cohort through `mechanism`.

    With mechanisms `per_action`, one for each supported action, each round has its own client, who reports on
    that round's action alone: `parts` are the plans that these clients are given.

    What clients report is `mixing`, a matrix, times their averages of the supported actions; without one, the
    averages as they are. They subtract `offsets`, one for each reported number, before they clip, and
    the server adds them back; without any, they are zero. Without a mechanism the phase only plays: the
    horizon cuts it short, or nobody is asked any more.
    """

    study: str
    phase: int
    support: tuple[int, ...]
    plays: tuple[int, ...]
    rank: int
    mechanism: Mechanism | None
    offsets: tuple[float, ...] = ()
    per_action: tuple[Mechanism, ...] = ()
    mixing: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        whole(1, MOST_PHASES, phase=self.phase)
        whole(0, MOST_RANK, rank=self.rank)
        if not self.support or len(self.support) != len(self.plays):
            raise InvalidValue("plays", f"{len(self.plays)} numbers", "one for each supported action")
        self._check_numbers()
        if any(len(row) != len(self.support) for row in self.mixing):
            raise InvalidValue("mixing", "a row", f"rows of {len(self.support)} numbers, one for each action")
        if self.offsets and len(self.offsets) != self.numbers:
            raise InvalidValue("offsets", f"{len(self.offsets)} numbers", f"none, or {self.numbers}")
        if self.mechanism is not None and self.mechanism.coordinates != self.numbers:
            raise InvalidValue("mechanism.coordinates", self.mechanism.coordinates, f"{self.numbers}")
        if self.per_action:
            self._check_per_action()

    def _check_numbers(self) -> None:
        """Each in its range, so that nothing which a client computes from the plan can overflow."""
        whole(1, MOST_ACTIONS, actions=len(self.support))
        for action, plays in zip(self.support, self.plays, strict=True):
            whole(0, LARGEST_ACTION, support=action)
            whole(1, MOST_PLAYS, plays=plays)
        whole(1, MOST_PLAYS, rounds=self.rounds)
        checked_entries(offsets=self.offsets)
        for row in self.mixing:
            checked_entries(mixing=row)

    def _check_per_action(self) -> None:
        if self.mechanism is not None:
            raise InvalidValue("mechanism", self.mechanism.kind, "none: each action has its own")
        if tuple(own.cohort for own in self.per_action) != self.plays:
            raise InvalidValue(
                "per_action", f"{len(self.per_action)} mechanisms", "one for the clients of each action"
            )
        whole(1, 1, coordinates=max(own.coordinates for own in self.per_action))

    def __hash__(self) -> int:
        """Equal plans have equal ones; mechanisms may be many, and hardly ever differ alone."""
        return hash((self.study, self.phase, self.support, self.plays))

    @property
    def rounds(self) -> int:
        """The rounds that this phase plays, T_l."""
        return sum(self.plays)

    @property
    def cohort(self) -> int:
        """The clients that this phase asks, |U_l|."""
        return sum(own.cohort for own in self.mechanisms)

    @property
    def asks(self) -> bool:
        """Whether clients are asked for reports at the end of the phase."""
        return bool(self.mechanisms)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """Those that some client answers through: one, one for each action, or none."""
        return self.per_action if self.mechanism is None else (self.mechanism,)

    @property
    def asked_mechanism(self) -> Mechanism:
        """The mechanism that each client of this phase answers through.

        Raises:
            ProtocolError: The phase asks nobody, or it has one cohort per action: then `parts` have one each.
        """
        if self.per_action:
            raise ProtocolError(
                f"phase {self.phase} asks each client for one action: take one of the plan's parts"
            )
        if self.mechanism is None:
            raise ProtocolError(f"phase {self.phase} plays and asks nobody")
        return self.mechanism

    @cached_property
    def parts(self) -> tuple[Plan, ...]:
        """What each group of clients is given: this plan, or the plan of one round of its own action."""
        if not self.per_action:
            return (self,)
        return tuple(
            Plan(
                study=self.study,
                phase=self.phase,
                support=(action,),
                plays=(1,),
                rank=self.rank,
                mechanism=own,
                offsets=self.offsets[index : index + 1],
            )
            for index, (action, own) in enumerate(zip(self.support, self.per_action, strict=True))
        )

    def counts(self, release: Release) -> tuple[int, ...]:
        """How many reports of a release went through each of the plan's mechanisms."""
        return release.counts if self.per_action else (release.reports,)

    @property
    def numbers(self) -> int:
        """How many numbers a client reports."""
        return len(self.mixing) or len(self.support)

    @property
    def centre(self) -> FloatArray:
        """What is subtracted from each reported number."""
        return np.array(self.offsets) if self.offsets else np.zeros(self.numbers)

    @cached_property
    def mixing_matrix(self) -> FloatArray | None:
        """`mixing` as an array, None if averages are reported as they are."""
        return np.array(self.mixing) if self.mixing else None

    def reported(self, averages: FloatArray) -> FloatArray:
        """From clients' averages, a row each, to what they clip and report."""
        mixed = averages if self.mixing_matrix is None else averages @ self.mixing_matrix.T
        return mixed - self.centre

    @cached_property
    def digest(self) -> str:
        """A fingerprint of everything in the plan."""
        return digest(self)


@dataclass(frozen=True, kw_only=True)
class Report:
    """One client's randomized report (the output of R).

    `payload` is packed by the `message` of the plan's mechanism; in JSON it is base64.
    """

    plan: str
    payload: bytes


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A cohort's reports after the third party (the output of S).

    `payload` is packed as a report is, with the shape `Mechanism.batch_shape`; in JSON it is base64.
    """

    plan: str
    payload: bytes
    reports: int

    def __post_init__(self) -> None:
        whole(1, MOST_CLIENTS, reports=self.reports)


@dataclass(frozen=True, kw_only=True)
class Release:
    """The private mean of each reported number over `reports` clients (the output of A).

    Where clients answer for one action each, `counts` says how many did for which. `simulated` stamps what
    was made with a simulation's noise and must not be taken for private.
    """

    plan: str
    means: tuple[float, ...]
    reports: int
    simulated: bool
    counts: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        finite_matrix(means=np.array([self.means]))
        whole(1, MOST_PLAYS, reports=self.reports)
        if self.counts and (len(self.counts) != len(self.means) or sum(self.counts) != self.reports):
            raise InvalidValue(
                "counts", self.counts, "none, or one for each mean, which add up to the reports"
            )
