"""The setting of a simulation: a problem and a study of it. The runs of a setting differ in the seed only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from dpbandits._checks import non_negative, one_of
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue, NotEnoughClients
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import OBJECTIVES, STEP_NAMES, Safeguard, Schedule, Spending, Steps, Study, budgeted
from dpbandits.simulation._cohorts import Cohorts
from dpbandits.simulation._problem import PAPER_POPULATION, Problem
from dpbandits.world import Clients, Instance

ALGORITHMS = ("dpe", "dpe-fixed", "pe")
DESIGN_TOLERANCE = 1.3  # unless it is given or planned
PAPER_PRIVACY = {"epsilon": 10.0, "delta": 0.25}
_PARTS = {"problem": Problem, "privacy": PrivacyRequest, "cohorts": Cohorts}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A problem and a study of it: the algorithm, its privacy, its cohorts and what the learner assumes.

    `Setting.of` takes the fields of all parts by name, for example
    `Setting.of(trust="central", actions=50, dimension=5, horizon=10**5)`. The default is
    (ε, δ) = (1, 10⁻⁶) and T = 10⁶. `Setting.paper` has the paper's (ε, δ) = (10, 0.25) instead.
    A field with the name of a field of `Study` is that field of the study.

    Attributes:
        problem: Actions, θ*, clients and rewards.
        privacy: Trust model, (ε, δ), preset and noise.
        cohorts: How participants are divided among the phases.
        algorithm: `dpe` has growing or planned cohorts, and `dpe-fixed` has fixed ones. `pe` is the standard
            linear bandit: every round has a new client, who reports the reward of that round's action.
        horizon: T, the number of rounds.
        bound: See `Study.bound`.
        bounded_rewards: Whether the learner assumes that every reward lies in [−B, B]. None chooses as
            described in `trusts_bound`.
        assumed_heterogeneity: The σ that the learner is given. None gives it the true σ.
        assumed_misfit: The misfit that the learner is given. None gives it the true one.
        design_tolerance: Designs have g ≤ design_tolerance × rank. None lets the plan of a budgeted schedule
            choose it, and is 1.3 otherwise.
        when_clients_run_out: See `Study.when_clients_run_out`.
        confidence: See `Study.confidence`.
        stop_when_decided: See `Study.stop_when_decided`.
        stop_gap: See `Study.stop_gap`.
        objective: See `Study.objective`.
        safety_margin: `Safeguard.margin`; None for none.
        loss_allowance: `Safeguard.allowance`; None for none.
        current_action: The index of the action in use today, which a margin or an allowance needs. None takes
            the current option of the problem's options.
        without: Steps of preset tight that are left out.

    Raises:
        InvalidValue: If a value is not accepted.

    Example:
        >>> import dpbandits as dp
        >>> setting = dp.Setting.of(trust="central", actions=50, dimension=5, horizon=10**5)
        >>> setting.privacy.trust, setting.problem.actions, setting.horizon
        ('central', 50, 100000)
    """

    problem: Problem = field(default_factory=Problem)
    privacy: PrivacyRequest = field(default_factory=PrivacyRequest)
    cohorts: Cohorts = field(default_factory=Cohorts)
    algorithm: str = "dpe"
    horizon: int = 10**6
    bound: float = 1.0
    bounded_rewards: bool | None = None
    assumed_heterogeneity: float | None = None
    assumed_misfit: float | None = None
    design_tolerance: float | None = None
    when_clients_run_out: str = "error"
    confidence: float | None = None
    stop_when_decided: bool = False
    stop_gap: float = 0.0
    objective: str = "regret"
    safety_margin: float | None = None
    loss_allowance: float | None = None
    current_action: int | None = None
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of(ALGORITHMS, algorithm=self.algorithm)
        one_of(OBJECTIVES, objective=self.objective)
        if self.assumed_heterogeneity is not None:
            non_negative(assumed_heterogeneity=self.assumed_heterogeneity)
        if self.algorithm == "dpe-fixed" and self.schedule_kind != "exponential":
            raise InvalidValue("schedule", self.schedule_kind, "exponential: dpe-fixed has fixed cohorts")
        if self.one_client_per_round:
            self._check_without_cohorts()
        for step in self.without:
            one_of(STEP_NAMES, without=step)
        if self.safeguard is not None and self.confidence is None:  # here, since planning takes seconds
            raise InvalidValue("confidence", None, "a number such as 0.95, if there is a safeguard")

    def _check_without_cohorts(self) -> None:
        expected = "pe asks one client per round"
        if self.schedule_kind != "exponential":
            raise InvalidValue("schedule", self.schedule_kind, f"exponential: {expected}")
        if self.cohorts.maximum_cohort is not None:
            raise InvalidValue("maximum_cohort", self.cohorts.maximum_cohort, f"none: {expected}")

    @classmethod
    def of(cls, **values: Any) -> Self:
        """Return a setting with these values. All other fields have their defaults.

        Args:
            **values: Fields of `Setting`, `Problem`, `PrivacyRequest` and `Cohorts`, by name.

        Raises:
            InvalidValue: If there is no such field, or if a value is not accepted.
        """
        return cls().changed(**values)

    @classmethod
    def paper(cls, **values: Any) -> Self:
        """Return a setting like `of`, but with the paper's (ε, δ) = (10, 0.25) by default.

        Args:
            **values: As in `of`.
        """
        return cls.of(**{**PAPER_PRIVACY, **values})

    def changed(self, **values: Any) -> Self:
        """Return a copy with other values for some fields of the setting or of its parts.

        Args:
            **values: Fields of `Setting`, `Problem`, `PrivacyRequest` and `Cohorts`, by name.

        Raises:
            InvalidValue: If there is no such field, or if a value is not accepted.
        """
        left = dict(values)
        for part, kind in _PARTS.items():
            own = {one.name: left.pop(one.name) for one in fields(kind) if one.name in left}
            if own:
                left[part] = replace(left.get(part, getattr(self, part)), **own)
        known = {one.name for one in fields(self)}
        for name, value in left.items():
            if name not in known:
                raise InvalidValue(name, value, "a field of Setting, Problem, PrivacyRequest or Cohorts")
        return replace(self, **left)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of all parts in one flat dictionary, which `of` accepts."""
        nested = asdict(self)
        parts = [nested.pop(part) for part in _PARTS]
        return {name: value for part in (*parts, nested) for name, value in part.items()}

    @property
    def one_client_per_round(self) -> bool:
        """Whether each client reports the reward of one round, as in PE and DP-PE."""
        return self.algorithm == "pe"

    @property
    def clients(self) -> int | None:
        """The number of clients; None for no limit. "usual" is the paper's 10⁵, or no limit for pe."""
        if self.problem.population != "usual":
            return self.problem.population
        return None if self.one_client_per_round else PAPER_POPULATION

    @property
    def schedule_kind(self) -> str:
        """The name of the schedule: `cohorts.schedule` if given.

        By default it is `budgeted` if `participants` is given, or if the preset is `tight` and the algorithm
        is `dpe`. Otherwise it is `exponential`.
        """
        if self.cohorts.schedule is not None:
            return self.cohorts.schedule
        if self.cohorts.participants is not None:
            return "budgeted"
        return "budgeted" if self.privacy.preset == "tight" and self.algorithm == "dpe" else "exponential"

    @property
    def trusts_bound(self) -> bool:
        """Whether the learner assumes that rewards lie in [−B, B].

        By default it does so with the exponential schedule, and with Bernoulli rewards if B ≥ 1. The other
        schedules begin with few plays per action, and in PE a client has only one play. Unbounded rewards
        would then often be clipped, so the learner does not assume a bound.
        """
        if self.bounded_rewards is not None:
            return self.bounded_rewards
        if self.problem.rewards == "bernoulli" and self.bound >= 1:
            return True
        return self.schedule_kind == "exponential" and not self.one_client_per_round

    def exponential(self) -> Schedule:
        """Return the paper's schedule of growing cohorts, or the fixed cohorts of DPE-FixedU."""
        own = self.cohorts
        if self.algorithm == "dpe-fixed":
            return Schedule(fixed_cohort=own.fixed_cohort, maximum_cohort=own.maximum_cohort)
        return Schedule.exponential(own.alpha, maximum_cohort=own.maximum_cohort)

    def planned(self) -> Spending:
        """Return the schedule and the design tolerance, planned for the actions of the run with seed 0.

        All runs of the setting use the same plan.
        """
        tolerance = DESIGN_TOLERANCE if self.design_tolerance is None else self.design_tolerance
        if self.one_client_per_round:
            problem = self.problem
            known = problem.actions_file is None and problem.options is None and problem.data is None
            dimension = problem.dimension if known else self.instance(0).actions.dimension
            return Spending(schedule=Schedule.one_client_per_round(dimension), design_tolerance=tolerance)
        budget = self.cohorts.participants or self.exponential().participants(self.horizon)
        if self.schedule_kind == "exponential" or budget < 1:  # a short horizon may have no reports
            return Spending(schedule=self.exponential(), design_tolerance=tolerance)
        actions = self.instance(0).actions
        if self.schedule_kind == "equal":
            phases, first, most = min(6, budget), 3 * actions.dimension, self.cohorts.maximum_cohort
            schedule = Schedule.shared(
                budget, phases=phases, first_length=first, growth=3, maximum_cohort=most
            )
            return Spending(schedule=schedule, design_tolerance=tolerance)
        if self.cohorts.maximum_cohort is None:  # the cohorts will add up to the budget
            self._check_clients(budget)  # here, since planning takes seconds
        given = Spending(schedule=self.exponential(), design_tolerance=tolerance)
        unlimited = self.changed(privacy=self.privacy.of_members, population=None)
        spending = budgeted(unlimited.study(actions, given), budget)
        return spending if self.design_tolerance is None else replace(spending, design_tolerance=tolerance)

    def _check_clients(self, budget: int) -> None:
        if self.when_clients_run_out == "error" and self.clients is not None and budget > self.clients:
            raise NotEnoughClients(budget, self.clients)

    @property
    def safeguard(self) -> Safeguard | None:
        """The safeguard of the study; None if there is neither a margin nor an allowance.

        Raises:
            InvalidValue: The action in use today is not known.
        """
        if self.safety_margin is None and self.loss_allowance is None:
            return None
        current = self.current_action
        if current is None and self.problem.options is not None:
            options = Options.from_json(self.problem.options)
            current = None if options.current is None else options.index(options.current)
        if current is None:
            expected = "the index of the action in use today, with a safety_margin or a loss_allowance"
            raise InvalidValue("current_action", None, expected)
        return Safeguard(current=current, margin=self.safety_margin, allowance=self.loss_allowance)

    @property
    def private(self) -> bool:
        """Whether the trust model adds any noise."""
        return self.privacy.trust_model.private

    def study(self, actions: Actions, spending: Spending | None = None) -> Study:
        """Return the study of these actions.

        Args:
            actions: The actions of the run.
            spending: The result of `planned`. None calls `planned`.
        """
        assumed = self.assumed_heterogeneity
        spent = self.planned() if spending is None else spending
        steps = Steps.of(self.privacy.preset).without(*self.without) if self.without else None
        own = vars(self)
        values = {one.name: own[one.name] for one in fields(Study) if one.name in own}
        values |= {  # those that a setting determines otherwise
            "bounded_rewards": self.trusts_bound,
            "heterogeneity": self.problem.true_heterogeneity if assumed is None else assumed,
            "misfit": self.problem.misfit if self.assumed_misfit is None else self.assumed_misfit,
            "population": self.clients,
            "design_tolerance": spent.design_tolerance,
            "safeguard": self.safeguard,
            "assignment": "one_per_round" if self.one_client_per_round else "everyone",
            "steps": steps,
        }
        return Study(actions=actions, schedule=spent.schedule, **values)

    def instance(self, seed: int) -> Instance:
        """Return the actions and θ* of the run with this seed.

        Args:
            seed: The seed of the run.
        """
        return self.problem.instance(seed)

    def people(self, instance: Instance) -> Clients:
        """Return the clients of an instance.

        Args:
            instance: The instance, from `instance`.
        """
        return self.problem.people(instance, self.clients)
