"""The messages that the parties exchange. Every message is frozen and converts to JSON without loss.

    Plan     server → everybody   what to play, how many clients to ask, and the privacy mechanism
    Report   client → shuffler    one client's randomized report, packed into bytes
    Batch    shuffler → server    all reports of a cohort after the third party's step S
    Release  server, stored       the private means: the only data from clients that the learner sees

R, S and A are the paper's names for the steps of a client, the third party and the server. A report, a batch
and a release name their plan by its digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix, whole, whole_numbers
from dpbandits.errors import InvalidValue, ProtocolError
from dpbandits.privacy import MOST_CLIENTS, Mechanism, checked_entries
from dpbandits.protocol._codec import digest

MOST_PLAYS = 10**15
LARGEST_ACTION = 2**40
MOST_ACTIONS = 2**20
"""The most actions that one phase may play."""
MOST_RANK = 2**20
MOST_PHASES = 2**20


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One phase: play `support[i]` for `plays[i]` rounds, then ask a cohort for reports.

    Attributes:
        study: The name of the study (`Study.name`).
        phase: The number of the phase, counted from 1.
        support: The indices of the actions that the phase plays.
        plays: The number of rounds for each supported action.
        rank: The dimension of the span of the active actions.
        mechanism: The privacy mechanism of the cohort. None if there is one mechanism per action, or if the
            phase asks nobody because the horizon cuts it short or no more clients can be asked.
        offsets: One public offset per reported number. Clients subtract it before they clip, and the server
            adds it back. Empty means zero.
        per_action: One mechanism per supported action, if each round has its own client, who reports only on
            the action of that round. `parts` are the plans that these clients receive. Empty otherwise.
        mixing: A matrix; clients report `mixing` times their averages of the supported actions. If it is
            empty, they report the averages themselves.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> plan.support, plan.plays, plan.cohort
        ((0, 1), (5, 5), 20)
        >>> dp.decode(dp.encode(plan), dp.Plan) == plan
        True
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
        """Check all ranges, so that no computation that a client makes from the plan can overflow."""
        whole(1, MOST_ACTIONS, actions=len(self.support))
        whole_numbers(0, LARGEST_ACTION, support=self.support)
        whole_numbers(1, MOST_PLAYS, plays=self.plays)
        whole(1, MOST_PLAYS, rounds=self.rounds)
        checked_entries(offsets=self.offsets)
        for row in self.mixing:
            checked_entries(mixing=row)

    def _check_per_action(self) -> None:
        if self.mechanism is not None:
            raise InvalidValue("mechanism", self.mechanism.kind, "none, since each action has its own")
        if tuple(own.cohort for own in self.per_action) != self.plays:
            expected = "one per action, whose cohort is the number of plays"
            raise InvalidValue("per_action", f"{len(self.per_action)} mechanisms", expected)
        whole(1, 1, coordinates=max(own.coordinates for own in self.per_action))

    def __hash__(self) -> int:
        """Hash four fields only: plans rarely differ only in the others, and mechanisms are slow to hash."""
        return hash((self.study, self.phase, self.support, self.plays))

    @property
    def rounds(self) -> int:
        """The number of rounds that this phase plays, T_l."""
        return sum(self.plays)

    @property
    def cohort(self) -> int:
        """The number of clients that this phase asks, |U_l|."""
        return sum(own.cohort for own in self.mechanisms)

    @property
    def asks(self) -> bool:
        """Whether clients are asked for reports at the end of the phase."""
        return bool(self.mechanisms)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """All mechanisms of the phase: a single one, one per action, or none."""
        return self.per_action if self.mechanism is None else (self.mechanism,)

    @property
    def asked_mechanism(self) -> Mechanism:
        """The single mechanism through which every client of this phase reports.

        Raises:
            ProtocolError: The phase asks nobody, or it has one cohort per action. In the second case each
                entry of `parts` has its own mechanism.
        """
        if self.per_action:
            raise ProtocolError(
                f"phase {self.phase} asks each client for one action: use one of the plan's parts"
            )
        if self.mechanism is None:
            raise ProtocolError(f"phase {self.phase} only plays: it asks no clients")
        return self.mechanism

    @cached_property
    def parts(self) -> tuple[Plan, ...]:
        """The plans that clients receive: this plan or, with one cohort per action, one plan per action."""
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
        """Return how many reports of a release went through each of the plan's mechanisms.

        Args:
            release: The release of the plan.
        """
        return release.counts if self.per_action else (release.reports,)

    @property
    def numbers(self) -> int:
        """How many numbers a client reports."""
        return len(self.mixing) or len(self.support)

    @property
    def centre(self) -> FloatArray:
        """The offset of each reported number, zero by default."""
        return np.array(self.offsets) if self.offsets else np.zeros(self.numbers)

    @cached_property
    def mixing_matrix(self) -> FloatArray | None:
        """`mixing` as an array; None if clients report the averages themselves."""
        return np.array(self.mixing) if self.mixing else None

    def reported(self, averages: FloatArray) -> FloatArray:
        """Convert averages, one row per client, to the numbers that clients clip and report.

        Args:
            averages: One row per client, one column per supported action.

        Returns:
            One row per client, one column per reported number.
        """
        mixed = averages if self.mixing_matrix is None else averages @ self.mixing_matrix.T
        return mixed - self.centre

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the whole plan."""
        return digest(self)


@dataclass(frozen=True, kw_only=True)
class Report:
    """One client's randomized report (the output of R).

    Attributes:
        plan: The digest of the plan.
        payload: The numbers, packed by the `message` of the plan's mechanism; base64 in JSON.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> report = dp.respond_with_averages(plan, examples.averages(plan), examples.noise())
        >>> report.plan == plan.digest, len(report.payload)
        (True, 16)
    """

    plan: str
    payload: bytes


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A cohort's reports after the third party (the output of S).

    Attributes:
        plan: The digest of the plan.
        payload: The numbers, packed like a report but with shape `Mechanism.batch_shape`; base64 in JSON.
        reports: How many reports the batch was made from.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> dp.shuffle(plan, examples.reports(plan), examples.noise()).reports
        20
    """

    plan: str
    payload: bytes
    reports: int

    def __post_init__(self) -> None:
        whole(1, MOST_CLIENTS, reports=self.reports)


@dataclass(frozen=True, kw_only=True)
class Release:
    """The private mean of each reported number over a cohort (the output of A).

    Attributes:
        plan: The digest of the plan.
        means: The means, offsets included.
        reports: How many clients reported.
        simulated: Whether simulated noise was used. Such a release must not be treated as private.
        counts: How many clients reported on each action, if each action has its own cohort; empty otherwise.

    Example:
        >>> from dpbandits import examples
        >>> release = examples.release(examples.plan())
        >>> [round(mean, 3) for mean in release.means], release.reports, release.simulated
        ([0.9, 0.1], 20, True)
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
                "counts", self.counts, "none, or one per mean, with the number of reports as their sum"
            )
