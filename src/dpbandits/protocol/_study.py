"""A study, which is fixed, and its state, which changes from phase to phase."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from dpbandits._arrays import IntArray
from dpbandits._checks import between, non_negative, one_of, whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue, NotEnoughClients
from dpbandits.privacy import PrivacyRequest, checked_bound
from dpbandits.protocol._bitmap import unpacked
from dpbandits.protocol._codec import digest
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._progress import Progress
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol._steps import STEP_NAMES, Steps
from dpbandits.protocol.assignment import ASSIGNMENTS, Assignment
from dpbandits.protocol.model import REWARD_MODELS, RewardModel

WHEN_CLIENTS_RUN_OUT = ("error", "stop")
LONGEST_HORIZON = 10**15  # rounds are counted exactly in 64-bit integers and in floats


@dataclass(frozen=True, kw_only=True)
class Study:
    """Everything that is decided before the first round. Every field is part of the study's digest.

    Attributes:
        actions: The actions that can be played.
        horizon: How many rounds are played in total, T in the paper.
        schedule: How long phases are and how many clients they ask. There is no default: `plan_study` plans
            one, and `Schedule.exponential()` is the paper's.
        bound: The mean rewards of all actions lie in [−bound, bound], B in the paper.
        bounded_rewards: Whether every single reward lies there too, as the paper assumes. If not, `tight`
            clips clients' averages further out, where few of them lie.
        heterogeneity: How much clients differ: the deviation of their own parameters, σ in the paper.
        privacy: The trust model and (ε, δ).
        population: The number of clients that can be asked, None if there is no limit.
        when_clients_run_out: With "stop" a study that runs short keeps playing its best guess and asks no
            more clients. With "error" it does not start.
        design_tolerance: Designs have g(π) ≤ this × the rank of the active set. The variance that privacy
            adds grows with g, and communication with the support. The support is about twice the rank at
            tolerance 1.3, and about the rank at 2, the paper's value.
        stop_when_decided: Whether nobody is asked any more once a single action is left. Otherwise every
            planned cohort is asked.
        assignment: What a client reports on. With "everyone" each client of a phase reports on all of its
            actions (DP-DPE). With "one" every round has a new client, who reports on the action of that
            round (DP-PE); the schedule's cohorts are then not used.
        model: The name of the reward model: how the mean reward of an action depends on its features. See
            `register_model`.
        steps: The steps beyond the paper that are taken, instead of those of the preset.
        terms: The digest of the terms that the study is deployed under. Empty in a simulation.
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
    model: str = "linear"
    steps: Steps | None = None
    terms: str = ""

    def __post_init__(self) -> None:
        whole(1, LONGEST_HORIZON, horizon=self.horizon)
        between(1.1, 2, design_tolerance=self.design_tolerance)
        checked_bound(self.bound)
        non_negative(heterogeneity=self.heterogeneity)
        one_of(WHEN_CLIENTS_RUN_OUT, when_clients_run_out=self.when_clients_run_out)
        one_of(ASSIGNMENTS, assignment=self.assignment)
        one_of(REWARD_MODELS, model=self.model)
        self._check_steps()
        self.reward_model.check(self)
        # What cannot be privatised is refused here, before anybody is asked.
        self.assignment_rule.check_privacy(self)
        if self.population is not None:
            whole(1, population=self.population)
            self._check_population(self.population)

    def _check_population(self, population: int) -> None:
        needed = self.assignment_rule.participants(self)
        if self.when_clients_run_out == "error" and needed > population:
            raise NotEnoughClients(needed, population)

    def _check_steps(self) -> None:
        supported = self.reward_model.steps
        for name in STEP_NAMES:
            if self.steps is not None and getattr(self.steps, name) and name not in supported:
                expected = f"steps that the reward model {self.model} supports: {', '.join(supported)}"
                raise InvalidValue("steps", name, expected)

    @property
    def assignment_rule(self) -> Assignment:
        """The assignment that the study names."""
        return ASSIGNMENTS[self.assignment]

    @property
    def reward_model(self) -> RewardModel:
        """The reward model that the study names."""
        return REWARD_MODELS[self.model]

    @property
    def clips_what_is_likely(self) -> bool:
        """Whether single rewards are clipped where few of them lie, instead of at the bound.

        Without privacy, clipping gains nothing in any preset.
        """
        return self.learning.recentred or not self.privacy.trust_model.private

    @cached_property
    def learning(self) -> Steps:
        """The steps taken: those chosen, or those of the preset that the reward model supports."""
        if self.steps is not None:
            return self.steps
        unsupported = [name for name in STEP_NAMES if name not in self.reward_model.steps]
        return Steps.of(self.privacy.preset).without(*unsupported)

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
        """How plans name the study: by the digest of its terms or, without terms, by its own."""
        return self.terms or self.digest

    @property
    def without_terms(self) -> Study:
        """The study as it is before it is deployed."""
        return replace(self, terms="") if self.terms else self

    def begin(self) -> State:
        """The state before the first phase: every action may be best."""
        everything = np.ones(self.actions.count, dtype=bool)
        return State(study=self, active=np.packbits(everything).tobytes())


@dataclass(frozen=True, kw_only=True)
class State:
    """What all releases so far have taught.

    Attributes:
        study: The study.
        active: The actions that may still be best, as a packed bitmap.
        phase: The next phase, counted from 1.
        rounds_played: The rounds of all phases so far.
        clients_asked: The clients of all phases so far.
        width: The largest width of the last phase that asked clients, None before the first. If more than
            2¹⁴ actions were active it may be an upper bound of that; this takes clipping or noise that is not
            Gaussian.
        history: What each phase that asked clients taught.
        progress: One record per phase that was played.
    """

    study: Study
    active: bytes
    phase: int = 1
    rounds_played: int = 0
    clients_asked: int = 0
    width: float | None = None
    history: tuple[PhaseEvidence, ...] = ()
    progress: tuple[Progress, ...] = ()

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
        return unpacked(self.active, self.study.actions.count)

    @property
    def evidence(self) -> PhaseEvidence | None:
        """What the last phase that asked clients taught; None before the first."""
        return self.history[-1] if self.history else None

    @property
    def estimate(self) -> tuple[float, ...] | None:
        """The parameter of the reward model as fitted to that phase; None before the first."""
        return self.history[-1].estimate if self.history else None
