"""A study, which is fixed, and its state, which is all that has been learnt so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dpbandits._arrays import IntArray
from dpbandits._checks import between, non_negative, one_of, whole
from dpbandits.actions import Actions
from dpbandits.errors import NotEnoughClients
from dpbandits.privacy import PrivacyRequest, calibrate, calibrate_per_action, checked_bound
from dpbandits.protocol._codec import digest
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol._steps import Steps

WHEN_CLIENTS_RUN_OUT = ("error", "stop")
ASSIGNMENTS = ("everyone", "one")
LONGEST_HORIZON = 10**15  # rounds are counted exactly in 64-bit integers and in floats


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is decided before the first round. `heterogeneity` is σ, `bound` is B, in the paper's words.

    `schedule` has no default: `plan_study` plans one, `Schedule.exponential()` is the paper's.

    With `bounded_rewards` every reward lies in [−bound, bound], as the paper assumes. Without, only the mean
    rewards of actions do: `tight` then clips clients' averages further out, where few of them lie.

    `population` is the number of clients that can be asked, None if there is no limit. With
    `when_clients_run_out = "stop"` a study that runs short keeps playing its best guess and asks no
    more; with `"error"` it does not start. Designs have g(π) ≤ `design_tolerance` × the rank of the
    active set: the variance that privacy adds grows with g, communication with the support, which is
    about twice the rank at tolerance 1.3 and once at 2, the paper's. With `stop_when_decided` nobody is
    asked once a single action is left; otherwise every planned cohort is. `steps` overrides the preset's.

    `assignment` says for what a client answers: with "everyone" each client of a phase for all of its
    actions (DP-DPE); with "one" every round has a new client, who answers for the action of that round
    (DP-PE). The schedule's cohorts then play no part: there are as many clients as rounds.
    """

    actions: Actions
    horizon: int
    schedule: Schedule
    bound: float = 1.0
    bounded_rewards: bool = True
    heterogeneity: float = 0.1
    privacy: PrivacyRequest = field(default_factory=PrivacyRequest)
    population: int | None = None
    when_clients_run_out: str = "error"
    design_tolerance: float = 1.3
    stop_when_decided: bool = False
    assignment: str = "everyone"
    steps: Steps | None = None
    terms: str = ""
    """The digest of the terms that the study is deployed under; a simulation has none."""

    def __post_init__(self) -> None:
        whole(1, LONGEST_HORIZON, horizon=self.horizon)
        between(1.1, 2, design_tolerance=self.design_tolerance)
        checked_bound(self.bound)
        non_negative(heterogeneity=self.heterogeneity)
        one_of(WHEN_CLIENTS_RUN_OUT, when_clients_run_out=self.when_clients_run_out)
        one_of(ASSIGNMENTS, assignment=self.assignment)
        # What cannot be privatised is refused here, before anybody is asked.
        if self.separate:
            calibrate_per_action(self.privacy, cohorts=[1], bounds=[self.bound])
        else:
            calibrate(self.privacy, coordinates=1, cohort=self.privacy.smallest_cohort, bound=self.bound)
        if self.population is not None:
            whole(1, population=self.population)
            self._check_population(self.population)

    def _check_population(self, population: int) -> None:
        needed = self.horizon if self.separate else self.schedule.participants(self.horizon)
        if self.when_clients_run_out == "error" and needed > population:
            raise NotEnoughClients(needed, population)

    @property
    def separate(self) -> bool:
        """Whether each action has clients of its own."""
        return self.assignment == "one"

    @property
    def clips_what_is_likely(self) -> bool:
        """Whether single rewards are clipped where few of them lie, and not at the bound.

        Without privacy there is nothing to be gained by clipping them, in any preset.
        """
        return self.learning.recentred or not self.privacy.trust_model.private

    @property
    def learning(self) -> Steps:
        """The steps taken: those chosen, or the preset's."""
        return Steps.of(self.privacy.preset) if self.steps is None else self.steps

    @property
    def confidence(self) -> float:
        """β = 1/(kT): the chance that one confidence statement of one phase fails, on one side."""
        return 1 / (self.actions.count * self.horizon)

    @cached_property
    def digest(self) -> str:
        """A fingerprint of the whole study, its actions included."""
        return digest(self)

    @property
    def name(self) -> str:
        """What plans call the study: the digest of its terms, or its own where it has none."""
        return self.terms or self.digest

    @property
    def without_terms(self) -> Study:
        """The study itself, as it is before anybody deploys it."""
        return replace(self, terms="") if self.terms else self

    def begin(self) -> State:
        """The state before the first phase: every action may be best."""
        everything = np.ones(self.actions.count, dtype=bool)
        return State(study=self, active=np.packbits(everything).tobytes())


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What one phase taught: its plan, how many answered, how far clipping may pull, and the estimate.

    Where each action has clients of its own, `counts` says how many answered for which, and `excess` is the
    scale of what clipping takes off a single reward (`_separate.py`), not a bound on the mean's pull.
    """

    plan: Plan
    reports: int
    excess: tuple[float, ...]
    estimate: tuple[float, ...]
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class State:
    """The fold of all releases so far. `active` is a bitmap over the actions, packed.

    `width` is the largest width of the last phase. Where more than 2¹⁴ actions were active and too many of
    them may have it, which takes clipping or noise that is not Gaussian, it is a bound of that from above.
    """

    study: Study
    active: bytes
    phase: int = 1
    rounds_played: int = 0
    clients_asked: int = 0
    width: float | None = None
    history: tuple[Evidence, ...] = ()

    @property
    def ended(self) -> bool:
        """Whether the horizon is reached."""
        return self.rounds_played >= self.study.horizon

    @property
    def clients_left(self) -> float:
        """How many clients can still be asked."""
        population = self.study.population
        return float("inf") if population is None else population - self.clients_asked

    @cached_property
    def active_actions(self) -> IntArray:
        """The indices of the actions that may still be best, ascending."""
        packed = np.frombuffer(self.active, dtype=np.uint8)
        return np.flatnonzero(np.unpackbits(packed, count=self.study.actions.count))

    @property
    def evidence(self) -> Evidence | None:
        """Of the last phase."""
        return self.history[-1] if self.history else None

    @property
    def estimate(self) -> tuple[float, ...] | None:
        """Of θ*, by the last phase."""
        return self.history[-1].estimate if self.history else None
