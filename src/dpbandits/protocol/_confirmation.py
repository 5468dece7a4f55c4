"""Confirmation: a last cohort measures a few finalists and the current option directly, without a model.

After the learning phases, new clients play the finalists, which are the options with the highest estimates,
and the current option, which the operator uses today. They report averages of these options, or half the
differences to the current option, through the study's own mechanism. The features of an action are not used:
each option has its own unknown mean, as if its features were an indicator vector. So the released means
estimate the true mean rewards, however these depend on the features. docs/theory.md has the proof.

For clients, the third party and the server a confirmation is a phase like any other: a plan, reports and a
release.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, probability, whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.privacy import calibrate
from dpbandits.protocol._clipping import MARGIN, clip_radius, on_grid
from dpbandits.protocol._evidence import PhaseEvidence
from dpbandits.protocol._messages import Plan
from dpbandits.protocol._reporting import FAR, Reporting, Statistics, clipping_bias, first_least, ranked
from dpbandits.protocol._schedule import Schedule
from dpbandits.protocol.model import LinearFit, fitted

if TYPE_CHECKING:
    from dpbandits.protocol._state import State
    from dpbandits.protocol._study import Study

ASSUMPTIONS = ("spread", "range")
MOST_FINALISTS = 20
# The horizon of the study of finalists: its own bounds on clipping fail with probability 3/_LONG.
_LONG = 10**7
_CHOICE = 0.05  # the probability that the best guess of the model is wrongly replaced
CLIPPING_SHARE = 0.02  # the part of the failure probability with which the bound on clipping may fail


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """The last cohort of a study, which compares finalists with the current option.

    Attributes:
        current: The index of the option in use today.
        cohort: How many clients are asked.
        plays: How often each option is played.
        finalists: How many options are compared with the current one at most, from 1 to 20.
        assumes: What the intervals assume about people. "range" assumes only that rewards lie in
            [−bound, bound]. "spread" assumes that a client's mean reward of option x is σ‖x‖-sub-Gaussian
            around the mean of all clients, where σ is the study's heterogeneity, and that single rewards have
            independent 1-sub-Gaussian noise. Neither assumes that mean rewards are linear in the features.

    Example:
        >>> from dataclasses import replace
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> study = replace(examples.study(), confirmation=dp.Confirmation(current=0, cohort=50))
        >>> study.confirmation.cohort, study.confirmation.assumes
        (50, 'spread')
    """

    current: int
    cohort: int
    plays: int = 1
    finalists: int = 3
    assumes: str = "spread"

    def __post_init__(self) -> None:
        whole(0, current=self.current)
        whole(1, cohort=self.cohort)
        whole(1, 10**9, plays=self.plays)
        whole(1, MOST_FINALISTS, finalists=self.finalists)
        one_of(ASSUMPTIONS, assumes=self.assumes)

    def check(self, study: Study) -> None:
        """Raise an error if a study cannot have this confirmation, or if no mechanism meets its privacy.

        Args:
            study: The study.

        Raises:
            InvalidValue: The study's assignment is not "everyone", it has fewer than two actions or no action
                `current`, its rewards do not fit `assumes`, or its clients clip unbounded rewards at the
                bound.
            PrivacyError: No mechanism meets the privacy of the study.
        """
        whole(0, study.actions.count - 1, current=self.current)
        whole(2, actions=study.actions.count)
        study.require_one_cohort("a confirmation")
        if self.assumes == "range" and not study.bounded_rewards:
            raise InvalidValue("assumes", "range", "spread, since rewards are not bounded")
        if not study.learning.recentred and not study.bounded_rewards:
            raise InvalidValue("bounded_rewards", False, "true in a study whose clients clip at the bound")
        measured = 1 + min(self.finalists, study.actions.count - 1)
        calibrate(study.privacy, coordinates=measured, cohort=self.cohort, bound=study.bound)


def may_confirm(state: State) -> bool:
    """Return whether the confirmation has not taken place, and fits into the horizon and the population."""
    study, own = state.study, state.study.confirmation
    if own is None or state.confirmation_evidence is not None or not state.history:
        return False
    left = math.inf if study.population is None else study.population - state.clients_asked
    rounds = own.plays * (1 + min(own.finalists, study.actions.count - 1))
    return own.cohort <= left and rounds <= study.horizon - state.rounds_played


def finalists(state: State, estimate: FloatArray) -> tuple[int, ...]:
    """Return the options that are measured: the finalists, the highest estimate first, and the current one.

    Finalists are options that the study did not drop. If it dropped all options except the current one, the
    only finalist is the dropped option with the highest estimate.

    Args:
        state: The state after the learning phases.
        estimate: The estimate from all phases together.
    """
    study, own = state.study, state.study.confirmation
    assert own is not None
    candidates = state.active_actions[state.active_actions != own.current]
    most = own.finalists
    if not len(candidates):
        everything = np.arange(study.actions.count)
        candidates, most = everything[everything != own.current], 1
    scores = study.reward_model.means(study.actions.matrix, candidates, estimate)
    order = ranked(scores)[:most]
    return (*(int(place) for place in candidates[order]), own.current)


def study_of_finalists(study: Study, options: tuple[int, ...]) -> Study:
    """Return the study whose actions are indicator vectors of some options, in this order.

    All mean rewards are linear in indicator vectors. The heterogeneity is √2·σ·max ‖x‖ for this reason:
    the deviations of one client for two options have proxies of at most σ²·max ‖x‖², and may depend on each
    other. So their difference has a proxy of at most 4σ²·max ‖x‖². This is 2, the squared length of the
    difference of two indicator vectors, times the squared heterogeneity.
    """
    own = study.confirmation
    assert own is not None
    rows = study.actions.matrix[list(options)]
    largest = math.sqrt(float(np.max(np.einsum("ij,ij->i", rows, rows))))
    return replace(
        study,
        actions=_indicators(len(options)),
        schedule=Schedule(cohorts=(own.cohort,), first_length=len(options) * own.plays),
        horizon=_LONG * len(options) * own.plays,
        heterogeneity=math.sqrt(2) * study.heterogeneity * largest,
        confidence=None,
        stop_when_decided=False,
        stop_gap=0.0,
        model="linear",
        steps=study.learning,
        options="",
        misfit=0.0,
        fit_test=None,
        confirmation=None,
    )


@lru_cache(maxsize=MOST_FINALISTS + 1)
def _indicators(count: int) -> Actions:
    return Actions(np.eye(count))


def confirmation_plan(state: State, options: tuple[int, ...]) -> Plan:
    """Return the plan of the confirmation: a phase that plays each option equally often.

    Args:
        state: The state after the learning phases.
        options: The options, from `finalists`.
    """
    tabular = study_of_finalists(state.study, options)
    plan = planned(tabular)
    return replace(plan, study=state.study.name, phase=state.phase, support=options)


def planned(tabular: Study) -> Plan:
    """Return the plan of a study of finalists. Clients report averages or half differences."""
    count, clients = tabular.actions.count, tabular.schedule.cohort(1)
    plays = (tabular.schedule.length(1) // count,) * count
    halves = np.hstack([np.eye(count - 1), -np.ones((count - 1, 1))]) / 2
    ways = [_clipped(tabular, _statistics(tabular, plays, mixing)) for mixing in (None, halves)]
    # A lead is the difference of two averages, with coefficients (1, −1) of length √2, or 2 half differences.
    errors = [length * way.width(tabular, clients) for length, way in zip((2**0.5, 2.0), ways, strict=True)]
    best = first_least(ways, errors) if tabular.privacy.trust_model.private else ways[0]
    mixing = best.statistics.mixing
    return Plan(
        study=tabular.name,
        phase=1,
        support=tuple(range(count)),
        plays=plays,
        rank=len(best.statistics.targets),
        mechanism=calibrate(
            tabular.privacy,
            coordinates=len(best.statistics.targets),
            cohort=clients,
            bound=best.bound,
            confidence=tabular.bound_failure,
        ),
        mixing=() if mixing is None else tuple(map(tuple, mixing.tolist())),
    )


def _statistics(tabular: Study, plays: tuple[int, ...], mixing: FloatArray | None) -> Statistics:
    """Return what clients report: averages if `mixing` is None, otherwise half differences.

    A single average scatters less than a difference of two averages. Its proxy is σ²·max ‖x‖², half the
    squared heterogeneity of the study of finalists.
    """
    single = 1.0 if mixing is not None else math.sqrt(0.5)
    return Statistics(
        rows=np.eye(len(plays)),
        plays=np.array(plays) / tabular.proxy_of_average(min(plays)),
        heterogeneity=single * tabular.heterogeneity,
        mixing=mixing,
    )


def _clipped(tabular: Study, statistics: Statistics) -> Reporting:
    """Return where clients clip: at the range of rewards, or where few unbounded rewards lie."""
    lossless = float(on_grid(statistics.reach("box", tabular.bound).max(), up=True))
    if tabular.bounded_rewards:
        return Reporting(statistics=statistics, shape="box", bound=lossless, recentred=False)
    margin = MARGIN if tabular.privacy.trust_model.private else FAR
    bound = float(on_grid(clip_radius(*statistics.residuals(tabular, "box", None), margin), up=True))
    return Reporting(statistics=statistics, shape="box", bound=bound, recentred=False)


def confirmation_evidence(
    study: Study, plan: Plan, reports: int, means: tuple[float, ...] = ()
) -> PhaseEvidence:
    """Return the evidence of a confirmation. Its plan has the indices of the study's actions."""
    tabular, own = study_of_finalists(study, plan.support), _as_tabular(plan)
    reporting = Reporting(
        statistics=_statistics(tabular, own.plays, own.mixing_matrix),
        shape="box",
        bound=own.asked_mechanism.bound,
        recentred=False,
    )
    bias = clipping_bias(tabular, reporting, None, reports)
    return PhaseEvidence(plan=plan, reports=reports, means=means, clipping_bias=bias)


def _as_tabular(plan: Plan) -> Plan:
    """Return the plan with the indices that its options have in the study of finalists."""
    return replace(plan, support=tuple(range(len(plan.support))))


def tabular_evidence(study: Study, evidence: PhaseEvidence) -> tuple[Study, PhaseEvidence]:
    """Return the evidence of a confirmation in terms of its finalists.

    Args:
        study: The study.
        evidence: The evidence of its confirmation.

    Returns:
        The study of finalists, and the evidence with that study's indices.
    """
    tabular = study_of_finalists(study, evidence.plan.support)
    return tabular, replace(evidence.unfitted, plan=_as_tabular(evidence.plan))


def confirmation_radii(
    study: Study, evidence: PhaseEvidence, directions: FloatArray, chance: float
) -> FloatArray:
    """Return radii of differences of measured options, each of which fails with probability `chance`.

    They use bounds only; `dpbandits.answers` has shorter radii, which use draws of the noise.

    Args:
        study: The study.
        evidence: The evidence of its confirmation. Radii do not depend on the means.
        directions: One row per difference, with coefficients of the options in the order of the plan.
        chance: The probability that one error exceeds its radius, on one side.
    """
    tabular, own = tabular_evidence(study, evidence)
    fit = fitted(tabular, own)
    assert isinstance(fit, LinearFit)
    assert study.confirmation is not None
    coefficients = directions @ fit.map
    if study.confirmation.assumes == "spread":
        return fit.errors.radius(coefficients, directions, confidence=chance)
    averages = coefficients if own.plan.mixing_matrix is None else coefficients @ own.plan.mixing_matrix
    proxies = (tabular.bound * np.abs(averages).sum(axis=1)) ** 2 / own.reports
    return own.plan.asked_mechanism.error_radius(coefficients, proxies, chance, own.reports)


def left_after_clipping(failure: float) -> float:
    """Return the failure probability that is left after the study of finalists' own bounds on clipping.

    Args:
        failure: The failure probability of all intervals of the confirmation together.
    """
    return failure - 3 / _LONG


def check_level(level: float, confirmation: Confirmation | None) -> None:
    """Check that the intervals of an answer can have a level.

    Args:
        level: The probability with which each kind of interval covers the truth.
        confirmation: The confirmation of the study, if it has one.

    Raises:
        InvalidValue: `level` is not strictly between 0 and 1, or too high for a confirmation.
    """
    probability(level=level)
    if confirmation is not None and left_after_clipping(1 - level) <= 0:
        expected = f"below {1 - 3 / _LONG:.7f} with a confirmation: its bounds on clipping may fail, too"
        raise InvalidValue("level", level, expected)


def to_current(others: int) -> FloatArray:
    """Return the directions of the differences of each finalist to the current option.

    Args:
        others: The number of finalists.

    Returns:
        One row per finalist, with coefficients of the finalists and, in the last column, the current option.
    """
    return np.hstack([np.eye(others), -np.ones((others, 1))])


def confirmed_leader(state: State, best: int) -> int:
    """Return the option to play after the confirmation.

    It is the best guess of the model, unless the confirmation finds at level 95 % that another measured
    option is better. So a wrong model does not decide alone. No interval depends on this choice.

    Args:
        state: Any state. Without a confirmation, the result is `best`.
        best: The best guess of the model. If the confirmation did not measure it, the result is `best`.
    """
    evidence = state.confirmation_evidence
    if evidence is None or best not in evidence.plan.support:
        return best
    options = evidence.plan.support
    place, others = options.index(best), np.eye(len(options))
    directions = np.delete(others - others[place], place, axis=0)
    tabular, own = tabular_evidence(state.study, evidence)
    ahead = directions @ fitted(tabular, own).estimate
    sure = ahead - confirmation_radii(state.study, evidence, directions, _CHOICE / len(directions))
    first = int(ranked(ahead)[0])
    return int(np.delete(options, place)[first]) if sure[first] > 0 else best
