"""The regret of a simulated study, averaged over the errors of its last estimate.

After the last phase that asks clients, a study plays its best guess to the end. A wrong guess is rare and
costs much, so it dominates the mean regret: with 80 runs in which it happens once, or never, the mean is
known to a factor of two. So the phases are simulated as they are, and the gap of the best guess is replaced
by its expectation, given what these phases played. The errors of an estimate are normal, with a random scale
if the noise has heavier tails than normal noise, and with the covariance that the fits state.

The simulated errors check this assumption. `Run.realised` is the regret with the guess that was made, and
`Run.squares` the squared errors in units of their stated variances: the sum of `Run.numbers` values with
expectation 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbandits.privacy import SimulatedNoise, noise_tails
from dpbandits.protocol import State, Study, ask, simulate_groups, tell
from dpbandits.protocol._best_guess import ErrorDraws
from dpbandits.protocol._predicted_errors import Pooled, PredictedErrors
from dpbandits.protocol.model._linear import LinearFit
from dpbandits.world import Instance, Population

ERRORS = 64  # draws of the errors per run


@dataclass(frozen=True, kw_only=True)
class Run:
    """One simulated study.

    Attributes:
        regret: The regret, averaged over the errors of the last estimate.
        realised: The regret as it was.
        squares: The sum of the squared errors of all estimates, in units of their variances.
        numbers: How many numbers were estimated, in all phases.
    """

    regret: float
    realised: float
    squares: float = 0.0
    numbers: int = 0


def averaged_run(study: Study, population: Population, *, seed: int) -> Run:
    """Simulate a study; return its regret, averaged over the errors of the last estimate.

    Args:
        study: A study with assignment "everyone" and a linear model.
        population: The simulated clients.
        seed: Determines the clients, their rewards, all noise and the drawn errors.
    """
    clients, privacy = (np.random.default_rng(own) for own in np.random.SeedSequence(seed).spawn(2))
    noise, truth, state, regret = SimulatedNoise(privacy), population.instance, study.begin(), 0.0
    plan = ask(state)
    while plan.asks:
        reported = study.assignment_rule.simulate(plan, population, clients)
        regret += truth.regret(plan.support, plan.plays)
        state = tell(state, plan, simulate_groups(plan, reported, noise)[0])
        if state.ended:
            return Run(regret=regret, realised=regret)
        plan = ask(state)
    realised = regret + truth.regret(plan.support, plan.plays)
    if not state.history or len(plan.support) > 1:
        return Run(regret=realised, realised=realised)
    known = [_errors_of(study, fit) for fit in state.fits if isinstance(fit, LinearFit)]
    away = [
        (one.spectrum[0].T @ (fit.estimate - truth.theta)) ** 2 / one.spectrum[1]
        for one, fit in zip(known, state.fits, strict=True)
    ]
    return Run(
        regret=regret + plan.rounds * _expected_gap(state, truth, known, seed),
        realised=realised,
        squares=float(sum(one.sum() for one in away)),
        numbers=sum(map(len, away)),
    )


def _errors_of(study: Study, fit: LinearFit) -> PredictedErrors:
    """Return the errors of the estimate of one phase."""
    plan, reports, mechanism = fit.evidence.plan, fit.evidence.reports, fit.evidence.plan.asked_mechanism
    averages = fit.map if plan.mixing_matrix is None else fit.map @ plan.mixing_matrix
    return PredictedErrors(
        of_plays=averages / np.sqrt(reports * np.array(plan.plays)),
        of_noise=mechanism.error_deviation(reports) * fit.map,
        tails=noise_tails(
            study.noise_request,
            coordinates=mechanism.coordinates,
            clients=mechanism.cohort,
            shape=mechanism.shape,
            confidence=study.bound_failure,
        ),
        common=study.heterogeneity**2 / reports,
        rank=plan.rank,
        level=1.0,
        widths_form=np.zeros((0, 0)),  # widths are not needed
    )


def _expected_gap(state: State, truth: Instance, known: list[PredictedErrors], seed: int) -> float:
    active = state.active_actions
    gaps, least = truth.gaps[active], float(truth.gaps[active].min())
    if len(active) == 1:
        return least
    draws = ErrorDraws.drawn(np.random.default_rng([seed, 5]), ERRORS, state.study.actions.dimension)
    pooled = Pooled(known=known, rows=state.study.actions.matrix[active])
    return least + pooled.guess(gaps - least, draws).expected_gap
