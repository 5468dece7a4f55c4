"""A setting of a simulation: everything but the seed. Its defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpbandits._checks import non_negative, one_of, whole
from dpbandits.actions import FAMILIES, Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import TRUST_MODELS, PrivacyRequest, TrustModel
from dpbandits.protocol import STEP_NAMES, Schedule, Spending, Steps, Study, budgeted
from dpbandits.world import REWARD_LAWS, USERS, Clients, Dataset, Instance, Population, load

ALGORITHMS = ("dpe", "dpe-fixed", "pe")
PAPER_POPULATION = 10**5
DESIGN_TOLERANCE = 1.3  # where no plan chooses it
SCHEDULES = ("exponential", "equal", "budgeted")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """d = 20, k = 1000, T = 10⁶, σ = .1, α = .8, N = 10⁵ and (ε, δ) = (10, .25), as in the paper.

    `algorithm` "pe" is the standard linear bandit: every round has a new client, who answers for the action
    of that round. It has a schedule of its own, and an unlimited population if none is given.

    `schedule` says how participants are spread over phases: `exponential` is the paper's, `budgeted` plans
    them; `participants` is the budget, as many as the paper uses if not given. The learner is told
    `assumed_heterogeneity`, the truth if not given, and, with `bounded_rewards`, that rewards keep the bound.

    Each run draws its own actions and θ* from its seed; `instance_seed` fixes them over the runs, and
    `actions_file` fixes the actions alone. With `data` (see world/_datasets.py) actions, θ* and heterogeneity
    are the data's, and `users` says who its clients are; runs on a ranking file draw their actions from it.
    """

    algorithm: str = "dpe"
    trust: str = "none"
    preset: str = "tight"
    epsilon: float = 10.0
    delta: float = 0.25
    noise: str | None = None
    minimum_share: float = 1.0
    silent_share: float = 0.0
    actions: int = 1000
    dimension: int = 20
    family: str = "sphere"
    actions_file: str | None = None
    data: str | None = None
    users: str = "fitted"
    horizon: int = 10**6
    alpha: float = 0.8
    fixed_cohort: int = 97
    maximum_cohort: int | None = None
    schedule: str | None = None
    participants: int | None = None
    heterogeneity: float = 0.1
    assumed_heterogeneity: float | None = None
    bound: float = 1.0
    bounded_rewards: bool | None = None
    rewards: str = "gaussian"
    population: int | Literal["usual"] | None = "usual"
    when_clients_run_out: str = "error"
    design_tolerance: float | None = None
    stop_when_decided: bool = False
    without: tuple[str, ...] = ()
    instance_seed: int | None = None

    def __post_init__(self) -> None:
        one_of(ALGORITHMS, algorithm=self.algorithm)
        one_of(FAMILIES, family=self.family)
        one_of(REWARD_LAWS, rewards=self.rewards)
        non_negative(heterogeneity=self.heterogeneity)
        whole(1, actions=self.actions)
        whole(1, dimension=self.dimension)
        if self.instance_seed is not None:
            whole(0, instance_seed=self.instance_seed)
        if self.schedule is not None:
            one_of(SCHEDULES, schedule=self.schedule)
        if self.participants is not None:
            whole(1, participants=self.participants)
        if self.assumed_heterogeneity is not None:
            non_negative(assumed_heterogeneity=self.assumed_heterogeneity)
        if self.algorithm == "dpe-fixed" and self.schedule_kind != "exponential":
            raise InvalidValue("schedule", self.schedule_kind, "exponential, as dpe-fixed has fixed cohorts")
        if self.one_client_a_round:
            self._check_without_cohorts()
        for step in self.without:
            one_of(STEP_NAMES, without=step)
        one_of(USERS, users=self.users)
        if self.data is not None:
            self._refuse_beside_data()

    def _refuse_beside_data(self) -> None:
        """What the data decide must not be asked for as well."""
        for name in ("family", "actions_file", "heterogeneity"):
            default = type(self).__dataclass_fields__[name].default
            if getattr(self, name) != default:
                raise InvalidValue(name.replace("_", "-"), getattr(self, name), "none: the data decide")

    @property
    def dataset(self) -> Dataset | None:
        """The real data, if the setting is on any; read once in a process."""
        return None if self.data is None else load(self.data, self.dimension)

    @property
    def true_heterogeneity(self) -> float:
        """The generated clients' σ, or the data's."""
        dataset = self.dataset
        return self.heterogeneity if dataset is None else dataset.heterogeneity(self.users)

    def _check_without_cohorts(self) -> None:
        if self.schedule_kind != "exponential":
            raise InvalidValue("schedule", self.schedule_kind, "exponential: pe asks a client in every round")
        if self.maximum_cohort is not None:
            raise InvalidValue("maximum_cohort", self.maximum_cohort, "none: pe asks a client in every round")

    @property
    def one_client_a_round(self) -> bool:
        """Whether clients answer for one round each, as in PE and DP-PE."""
        return self.algorithm == "pe"

    @property
    def clients(self) -> int | None:
        """How many exist: as many as were asked for, else the paper's 10⁵, or without limit for PE."""
        if self.population != "usual":
            return self.population
        return None if self.one_client_a_round else PAPER_POPULATION

    @property
    def schedule_kind(self) -> str:
        """What was asked for; else planned in `tight`, and the paper's growing cohorts in `paper`."""
        if self.schedule is not None:
            return self.schedule
        if self.participants is not None:
            return "budgeted"
        return "budgeted" if self.preset == "tight" and self.algorithm == "dpe" else "exponential"

    @property
    def trusts_bound(self) -> bool:
        """Whether the learner is told that rewards keep the bound: with the paper's schedule, as there.

        Planned schedules begin with few plays of an action, and in PE a client has but one, where unbounded
        rewards would be cut badly, so they are told the truth.
        """
        if self.bounded_rewards is not None:
            return self.bounded_rewards
        if self.rewards == "bernoulli" and self.bound >= 1:
            return True
        return self.schedule_kind == "exponential" and not self.one_client_a_round

    def exponential(self) -> Schedule:
        """The paper's growing cohorts, or the fixed one of DPE-FixedU."""
        fixed = self.fixed_cohort if self.algorithm == "dpe-fixed" else None
        return Schedule(alpha=self.alpha, fixed_cohort=fixed, maximum_cohort=self.maximum_cohort)

    def planned(self) -> Spending:
        """The schedule of all runs; a budget is divided as is best for the first run's actions."""
        tolerance = DESIGN_TOLERANCE if self.design_tolerance is None else self.design_tolerance
        if self.one_client_a_round:
            known = self.actions_file is None and self.data is None
            dimension = self.dimension if known else self.instance(0).actions.dimension
            return Spending(schedule=Schedule.one_client_a_round(dimension), design_tolerance=tolerance)
        budget = self.participants or self.exponential().participants(self.horizon)
        if self.schedule_kind == "exponential" or budget < 1:  # or the horizon is too short to ask anybody
            return Spending(schedule=self.exponential(), design_tolerance=tolerance)
        actions = self.instance(0).actions
        if self.schedule_kind == "equal":
            schedule = Schedule.shared(
                budget,
                phases=min(6, budget),
                first_length=3 * actions.dimension,
                growth=3,
                maximum_cohort=self.maximum_cohort,
            )
            return Spending(schedule=schedule, design_tolerance=tolerance)
        given = Spending(schedule=self.exponential(), design_tolerance=tolerance)
        spending = budgeted(replace(self, population=None).study(actions, given), budget)
        return spending if self.design_tolerance is None else replace(spending, design_tolerance=tolerance)

    @property
    def trust_model(self) -> TrustModel:
        """The trust model, as a value."""
        return TRUST_MODELS[self.trust]

    @property
    def private(self) -> bool:
        """Whether anything is hidden from anybody."""
        return self.trust_model.private

    def privacy(self) -> PrivacyRequest:
        """What is asked of the Privatizer."""
        return PrivacyRequest(
            trust=self.trust,
            epsilon=self.epsilon,
            delta=self.delta,
            preset=self.preset,
            noise=self.noise,
            minimum_share=self.minimum_share,
            silent_share=self.silent_share,
        )

    def study(self, actions: Actions, spending: Spending | None = None) -> Study:
        """The study that the learner is given."""
        assumed = self.assumed_heterogeneity
        spent = self.planned() if spending is None else spending
        return Study(
            actions=actions,
            horizon=self.horizon,
            bound=self.bound,
            bounded_rewards=self.trusts_bound,
            heterogeneity=self.true_heterogeneity if assumed is None else assumed,
            privacy=self.privacy(),
            schedule=spent.schedule,
            population=self.clients,
            when_clients_run_out=self.when_clients_run_out,
            design_tolerance=spent.design_tolerance,
            stop_when_decided=self.stop_when_decided,
            assignment="one" if self.one_client_a_round else "everyone",
            steps=Steps.of(self.preset).without(*self.without) if self.without else None,
        )

    def instance(self, seed: int) -> Instance:
        """The truth of the run with this seed."""
        own = seed if self.instance_seed is None else self.instance_seed
        # The domain word keeps the instance independent of the run's rewards and noise.
        streams = np.random.SeedSequence([own, 0x1257]).spawn(2)
        for_actions, for_theta = (np.random.default_rng(stream) for stream in streams)
        dataset = self.dataset
        if dataset is not None:
            return dataset.instance(dataset.choose(self.actions, for_actions), self.users)
        if self.actions_file is not None:
            actions = Actions.load(self.actions_file)
        else:
            actions = Actions.generate(
                self.family, count=self.actions, dimension=self.dimension, rng=for_actions
            )
        return Instance.draw(actions, for_theta)

    def people(self, instance: Instance) -> Clients:
        """The population around that truth."""
        dataset = self.dataset
        if dataset is not None:
            return dataset.people(instance, self.users, size=self.clients, rewards=self.rewards)
        return Population(instance, heterogeneity=self.heterogeneity, size=self.clients, rewards=self.rewards)
