"""`Study`: the settings that are fixed before the first round, and what follows from them alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._checks import between, convert_to_floats, non_negative, one_of, positive, two_ends, whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue, NotEnoughClients
from dpbandits.privacy import PrivacyRequest, checked_bound
from dpbandits.protocol._bitmap import packed
from dpbandits.protocol._codec import digest
from dpbandits.protocol._confirmation import Confirmation
from dpbandits.protocol._lack_of_fit import FitTest
from dpbandits.protocol._safeguard import Safeguard
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol._steps import STEP_NAMES, Steps
from dpbandits.protocol.assignment import ASSIGNMENTS, Assignment
from dpbandits.protocol.model import REWARD_MODELS, RewardModel

if TYPE_CHECKING:
    from dpbandits.protocol._state import State

WHEN_CLIENTS_RUN_OUT = ("error", "stop")
OBJECTIVES = ("regret", "identification")
LARGEST_CONFIDENCE = 0.999999
_POOLED = 0.8  # the share of 1 − confidence for bounds from all phases together
_GAPS = 0.1  # the share of bounds on gaps, without a `stop_gap`, in the bounds that do not concern losses
_LOSSES = 0.2  # the share of bounds on losses in `_POOLED`, in a study with a safeguard
LONGEST_HORIZON = 10**15  # up to here, 64-bit integers and floats count rounds exactly


@dataclass(frozen=True, kw_only=True)
class Study:
    """The settings of a study, fixed before the first round.

    Attributes:
        actions: The actions that can be played.
        horizon: The total number of rounds, T.
        schedule: The length and the cohort of each phase. `plan_study` plans one; `Schedule.exponential()` is
            the paper's.
        bound: The paper's B: mean rewards lie in [−bound, bound].
        bounded_rewards: Whether every single reward also lies in [−bound, bound], as the paper assumes. If
            not, the preset "tight" clips the clients' averages further out, where few of them lie.
        heterogeneity: The paper's σ, the spread of the clients' own parameters.
        privacy: The trust model, (ε, δ) and the preset.
        population: How many clients can be asked; None for no limit.
        when_clients_run_out: With "stop", a study with too few clients stops asking and keeps playing its
            best guess. With "error", such a study is refused.
        design_tolerance: Designs have g(π) ≤ `design_tolerance` × the rank of the active set, from 1.1 to 2.
            The variance that privacy adds grows with g, and communication grows with the support. The support
            is about twice the rank at tolerance 1.3, and about the rank at 2, the paper's value.
        confidence: The probability with which all statements of the study hold together: the best action is
            never dropped, and bounds on gaps are right. It lies between 0.5 and 0.999999, for example 0.95.
            None for the paper's choice, by which each single bound fails with probability 1/(kT).
        stop_when_decided: Whether no more clients are asked once a single action is left, or once the best
            guess is certain to be within `stop_gap` of the best action. If not, every planned cohort is
            asked.
        objective: With "regret" a phase plays only actions that may still be best. With "identification" it
            may also play other actions, if the remaining ones are then compared with fewer clients.
        stop_gap: A gap that is small enough to stop, on the scale of [−bound, bound]; see
            `stop_when_decided`.
        assignment: The actions that a client reports on. With "everyone", each client of a phase reports on
            all actions of the phase (DP-DPE). With "one_per_round", every round has a new client, who
            reports on the action of that round (DP-PE); there are as many clients as rounds, and the
            schedule's cohorts are not used.
        model: The name of the reward model, see `REWARD_MODELS`.
        steps: The steps to take; None for those of the preset.
        terms: The digest of the terms under which the study is deployed; empty in a simulation.
        options: The digest of the options (`Options.digest`) whose rows are the actions, so that the names of
            the actions are a part of the study; empty if the actions have no names.
        reward_range: The range of single rewards in the user's units, (low, high). Clients clip rewards to it
            and map it to [−bound, bound]; answers are mapped back. None if rewards are on the scale of
            [−bound, bound] already.
        reward_variance: An upper bound on the variance of single rewards around the mean of their client, on
            the scale of [−bound, bound]; None if no such bound is known. Clipping and widths use it. It needs
            `bounded_rewards` and the assignment "everyone".
        misfit: An upper bound on |mean reward − ⟨θ*, x⟩| over all actions, on the scale of [−bound, bound].
            Widths allow for it. 0 assumes that mean rewards are linear in the features.
        fit_test: A cohort that tests whether mean rewards are linear in the features, after the learning
            phases; None for no test. Its clients are asked in addition to those of the schedule.
        confirmation: The last cohort, which measures finalists and the current option without a model; None
            for no confirmation. Its clients are asked in addition to those of the schedule.
        safeguard: Limits on how much worse the study may be than the option in use today; None for none. It
            needs a `confidence`.

    Raises:
        InvalidValue: A value is out of range, or two settings do not fit together.
        PrivacyError: No mechanism meets the privacy request.
        NotEnoughClients: The population is too small, and `when_clients_run_out` is "error".

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> actions, schedule = examples.study().actions, dp.Schedule(cohorts=(20,), first_length=10)
        >>> study = dp.Study(actions=actions, horizon=100, schedule=schedule)
        >>> study.begin().active_actions
        array([0, 1, 2])
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
    confidence: float | None = None
    stop_when_decided: bool = False
    stop_gap: float = 0.0
    objective: str = "regret"
    assignment: str = "everyone"
    model: str = "linear"
    steps: Steps | None = None
    terms: str = ""
    options: str = ""
    reward_range: tuple[float, float] | None = None
    reward_variance: float | None = None
    misfit: float = 0.0
    fit_test: FitTest | None = None
    confirmation: Confirmation | None = None
    safeguard: Safeguard | None = None

    def __eq__(self, other: object) -> bool:
        """Return whether the digests are equal, which are computed once."""
        if not isinstance(other, Study):
            return NotImplemented
        return self.digest == other.digest

    def __post_init__(self) -> None:
        whole(1, LONGEST_HORIZON, horizon=self.horizon)
        between(1.1, 2, design_tolerance=self.design_tolerance)
        checked_bound(self.bound)
        non_negative(heterogeneity=self.heterogeneity)
        if self.confidence is not None:
            between(0.5, LARGEST_CONFIDENCE, confidence=self.confidence)
        if non_negative(stop_gap=self.stop_gap) and not self.stop_when_decided:
            raise InvalidValue("stop_gap", self.stop_gap, "0 unless stop_when_decided is true")
        one_of(OBJECTIVES, objective=self.objective)
        one_of(WHEN_CLIENTS_RUN_OUT, when_clients_run_out=self.when_clients_run_out)
        one_of(ASSIGNMENTS, assignment=self.assignment)
        one_of(REWARD_MODELS, model=self.model)
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", two_ends(reward_range=self.reward_range))
        self._check_steps()
        if self.objective == "identification" and not self.learning.differences:
            expected = "regret without the step differences: widths of single actions need its designs"
            raise InvalidValue("objective", self.objective, expected)
        self._check_misfit()
        self._check_variance()
        convert_to_floats(self)
        self.reward_model.check(self)
        # Raises here, before any client is asked, if no mechanism can meet the privacy request.
        self.assignment_rule.check(self)
        if self.confirmation is not None:
            self.confirmation.check(self)
        if self.fit_test is not None:
            self.fit_test.check(self)
        # The study of finalists of a confirmation has no confidence, but it never begins: `begin` checks
        # again.
        if self.safeguard is not None and self.confidence is not None:
            self.safeguard.check(self)
        if self.population is not None:
            whole(1, population=self.population)
            self._check_population(self.population)
        if self.privacy.sampled_share < 1:
            self._check_sampling(self.privacy.sampled_share)

    def _check_population(self, population: int) -> None:
        needed = self.assignment_rule.participants(self) + self.after_learning
        if self.when_clients_run_out == "error" and needed > population:
            raise NotEnoughClients(needed, population)

    def _check_sampling(self, share: float) -> None:
        """Raise unless the study asks at most this share of the population, whatever it learns."""
        needed = self.assignment_rule.participants(self) + self.after_learning
        if self.population is None:
            expected = f"the number of clients who are ready, with sampled_share = {share:g}"
            raise InvalidValue("population", self.population, expected)
        if needed > share * self.population * (1 + 1e-12):
            expected = f"at least {needed / self.population:.6g}: {needed:,} of {self.population:,} are asked"
            raise InvalidValue("sampled_share", share, expected)

    def _check_variance(self) -> None:
        if self.reward_variance is None:
            return
        positive(reward_variance=self.reward_variance)
        if not self.bounded_rewards or not self.assignment_rule.one_cohort:
            expected = "none, unless rewards are bounded and the assignment is everyone"
            raise InvalidValue("reward_variance", self.reward_variance, expected)

    def proxy_of_average(self, fewest: float) -> float:
        """Return the variance proxy of one play in a client's average over at least this many plays.

        Args:
            fewest: The least number of plays in an average.
        """
        if self.reward_variance is None:
            return 1.0
        from dpbandits.protocol.assignment._bounded_variance import proxy_of_average

        return proxy_of_average(self, fewest)

    def _check_misfit(self) -> None:
        if not between(0, self.bound, misfit=self.misfit):
            return
        if not self.reward_model.linear_in_features:
            raise InvalidValue("misfit", self.misfit, f"0 with the reward model {self.model}")
        if self.privacy.preset == "paper" and not self.learning.differences:
            raise InvalidValue("misfit", self.misfit, "0 in preset paper, whose width does not allow for it")

    def _check_steps(self) -> None:
        supported = self.reward_model.steps
        for name in STEP_NAMES:
            if self.steps is not None and getattr(self.steps, name) and name not in supported:
                expected = f"steps that the reward model {self.model} supports: {', '.join(supported)}"
                raise InvalidValue("steps", name, expected)

    @property
    def assignment_rule(self) -> Assignment:
        """The implementation of `assignment`."""
        return ASSIGNMENTS[self.assignment]

    def require_one_cohort(self, purpose: str) -> None:
        """Raise unless every client of a phase reports on all of its actions.

        Args:
            purpose: What needs it, for the message.

        Raises:
            InvalidValue: Each action has a cohort of its own.
        """
        if not self.assignment_rule.one_cohort:
            raise InvalidValue("assignment", self.assignment, f"everyone: {purpose} needs one cohort")

    @property
    def confirming(self) -> int:
        """How many clients the confirmation asks; 0 without one."""
        return 0 if self.confirmation is None else self.confirmation.cohort

    @property
    def after_learning(self) -> int:
        """How many clients the fit test and the confirmation ask."""
        return self.confirming + (0 if self.fit_test is None else self.fit_test.cohort)

    @property
    def reward_model(self) -> RewardModel:
        """The implementation of `model`."""
        return REWARD_MODELS[self.model]

    @property
    def clips_what_is_likely(self) -> bool:
        """Whether single rewards are clipped where few of them lie, instead of at the bound.

        Without privacy, clipping at the bound gains nothing, so this is true in every preset.
        """
        return self.learning.recentred or not self.privacy.trust_model.private

    @cached_property
    def learning(self) -> Steps:
        """The steps that the study takes: `steps`, or those of the preset that the reward model supports."""
        if self.steps is not None:
            return self.steps
        unsupported = [name for name in STEP_NAMES if name not in self.reward_model.steps]
        return Steps.of(self.privacy.preset).without(*unsupported)

    @cached_property
    def bound_failure(self) -> float:
        """β, the probability that one one-sided confidence bound of one phase fails.

        Without a `confidence` it is 1/(kT). With a `confidence` it is (1 − confidence)/(5kL): L phases have
        at most 5k bounds each (docs/theory.md, *What can fail in total*), or 7k with a safeguard. If the
        study `pools`, these bounds share a fifth of 1 − confidence.
        """
        if self.confidence is None:
            return 1 / (self.actions.count * self.horizon)
        phases = max(1, self.schedule.reporting_phases(self.horizon))
        share = 1 - _POOLED if self.pools else 1.0
        bounds = 5 if self.safeguard is None else 7
        return share * (1 - self.confidence) / (bounds * self.actions.count * phases)

    @cached_property
    def pools(self) -> bool:
        """Whether actions are also dropped by the estimates of all phases together, see `_pooling.py`.

        This needs a `confidence`, the steps `differences` and `pooled`, a reward model that can compare, no
        `reward_variance`, and a default noise that is sub-Gaussian. Single phases with other noise are left
        out.
        """
        if self.confidence is None or not (self.learning.differences and self.learning.pooled):
            return False
        if self.reward_variance is not None:
            return False
        trust = self.privacy.trust_model
        sub_gaussian = not trust.private or self.privacy.noises[0] in trust.sub_gaussian_noises
        return self.reward_model.compares and sub_gaussian

    @cached_property
    def noise_request(self) -> PrivacyRequest:
        """The privacy request that mechanisms are calibrated to.

        A study that pools takes sub-Gaussian noise in every phase if the request names no noise, because only
        such phases are pooled. A single phase might have shorter widths with other noise.
        """
        if not self.pools or not self.privacy.trust_model.private or self.privacy.noise is not None:
            return self.privacy
        return replace(self.privacy, noise=self.privacy.noises[0])

    @cached_property
    def pair_failures(self) -> tuple[float, float]:
        """The probabilities with which a pooled bound on the lead of one action over the best one fails.

        The first is for bounds that drop actions, the second for bounds on gaps (`gap_bound`). Each holds for
        all phases together. They are equal in a study with a `stop_gap`.

        Raises:
            InvalidValue: The study has no `confidence`.
        """
        if self.confidence is None:
            raise InvalidValue("confidence", None, "a number: a study without one does not pool phases")
        gaps = 0.5 if self.stop_gap else _GAPS
        share = _POOLED if self.safeguard is None else _POOLED * (1 - _LOSSES)
        each = share * (1 - self.confidence) / max(1, self.actions.count - 1)
        return (1 - gaps) * each, gaps * each

    @cached_property
    def loss_failure(self) -> float:
        """The probability with which a pooled bound on the loss of one action fails, on one side.

        A loss is the mean reward of the current option minus that of the action. The bound holds for all
        phases together, in a study with a safeguard.

        Raises:
            InvalidValue: The study has no `confidence`.
        """
        if self.confidence is None:
            raise InvalidValue("confidence", None, "a number: a study without one does not pool phases")
        return _LOSSES * _POOLED * (1 - self.confidence) / (2 * max(1, self.actions.count - 1))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 digest of the whole study, including its actions."""
        return digest(self)

    @property
    def name(self) -> str:
        """The name of the study in plans: the digest of its terms or, without terms, its own digest."""
        return self.terms or self.digest

    @property
    def without_terms(self) -> Study:
        """The study before deployment, with empty `terms`."""
        return replace(self, terms="") if self.terms else self

    def begin(self) -> State:
        """Return the state before the first phase, in which every action is active.

        Raises:
            InvalidValue: The study has a safeguard and no confidence.
        """
        from dpbandits.protocol._state import State  # here, because _state.py imports this file

        if self.safeguard is not None:
            self.safeguard.check(self)
        count = self.actions.count
        return State(study=self, active=packed(np.arange(count), count))
