"""Rows of `coverage.py --others`: widths with a variance or a misfit, of confirmations, and of all phases.

- variance: rewards are clicks at a rate of 3 %, of which a variance is stated; 8 options without common
  features. Directions are those of the other rows.
- misfit: mean rewards deviate from a linear function by m = .03. For each direction b − x the deviations are
  those that move its estimate farthest, so that the allowance in the width is used up. b is the best option.
- pooled: see `identification.py`. The bounds must hold in 8 phases at once.
- confirmation: see `confirmation.py`. The level is .9 for three differences on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import confirmation
import identification
import numpy as np
from coverage import (
    CONFIDENCE,
    LARGEST_RATIO,
    TRUSTS,
    Measured,
    MeasuredStudy,
    draw,
    estimates,
    measure,
    report,
)
from numpy.typing import NDArray
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.protocol import LinearFit, Schedule, State, ask, fitted
from dpbandits.world import Instance, Population

FloatArray = NDArray[np.float64]
MEASURED = ("none", "central (1, 1e-6)", "shuffle (1, 1e-6)")
RATE, OWN_RATES, MOST_VARIANCE = 0.03, 0.0005, 4 * 0.032 * 0.968
MISFIT, PAIRS = 0.03, 6
KINDS = ("variance", "misfit", "confirmation", "pooled")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line: how many phases it has, and whether its limits are met."""

    phases: int
    good: bool


def variance_rows(draws: int, rng: np.random.Generator) -> list[Row]:
    """Measure widths with a stated variance, in first phases and in later ones."""
    actions = Actions(np.eye(8))
    means = np.full(actions.count, 2 * RATE - 1)
    population = Population(
        Instance(actions, np.zeros(actions.dimension), measured=means),
        heterogeneity=2 * OWN_RATES,
        rewards="bernoulli",
    )
    rows = list[Row]()
    for trust in MEASURED:
        study = MeasuredStudy(
            actions=actions,
            horizon=10**6,
            privacy=TRUSTS[trust],
            schedule=Schedule(cohorts=(400, 400), first_length=16 * actions.count, growth=3.0),
            heterogeneity=2 * OWN_RATES,
            reward_range=(0.0, 1.0),
            reward_variance=MOST_VARIANCE,
        )
        state = study.begin()
        for kind in ("first", "later"):
            plans = [measure(state, population, draws, rng, parameter=means)]
            rows.append(_judged(trust, "variance", kind, plans))
            state = draw(state, ask(state), population, rng)
    return rows


def misfit_rows(draws: int, rng: np.random.Generator) -> list[Row]:
    """Measure widths with a misfit, for deviations that are worst for a difference."""
    actions = Actions.generate("sphere", count=12, dimension=4, rng=rng)
    linear = Instance(actions, 0.02 * Instance.draw(actions, rng).theta)  # nothing is dropped
    rows = list[Row]()
    for trust in MEASURED:
        study = MeasuredStudy(
            actions=actions,
            horizon=10**6,
            privacy=TRUSTS[trust],
            schedule=Schedule(cohorts=(400, 400), first_length=200, growth=4.0),
            bounded_rewards=False,
            misfit=MISFIT,
        )
        state = study.begin()
        for kind in ("first", "later"):
            others = [place for place in state.active_actions if place != linear.best_action][:PAIRS]
            plans = [_worst_misfit(state, linear, int(place), draws, rng) for place in others]
            rows.append(_judged(trust, "misfit", kind, plans))
            state = draw(state, ask(state), Population(linear, heterogeneity=study.heterogeneity), rng)
    return rows


def _worst_misfit(
    state: State, linear: Instance, other: int, draws: int, rng: np.random.Generator
) -> Measured:
    """Measure the difference of the best option to another one under its worst deviations."""
    study, plan, best = state.study, ask(state), linear.best_action
    people = Population(linear, heterogeneity=study.heterogeneity)
    direction = study.actions.matrix[[best]] - study.actions.matrix[[other]]
    fit = fitted(study, draw(state, plan, people, rng).history[-1])
    assert isinstance(fit, LinearFit)
    moved = np.zeros(study.actions.count)
    moved[list(plan.support)] = fit.on_averages(direction)[0]
    moved[best] -= 1
    moved[other] += 1
    bent = Instance(study.actions, linear.theta, measured=linear.mean_rewards + MISFIT * np.sign(moved))
    people = Population(bent, heterogeneity=study.heterogeneity)
    truth = bent.mean_rewards[best] - bent.mean_rewards[other]
    errors = estimates(state, plan, people, draws, rng)[1] @ direction[0] - truth
    width = fit.widths(np.array([other]), towards=best)
    return Measured(
        phases=draws,
        outside=np.array([np.mean(errors > width[0])]),
        ratios=width / np.quantile(errors, 1 - CONFIDENCE),
    )


def _judged(trust: str, name: str, kind: str, plans: list[Measured]) -> Row:
    inside, ratio = report(trust, name, kind, plans)
    return Row(phases=sum(one.phases for one in plans), good=inside and ratio <= LARGEST_RATIO)


def confirmation_rows(studies: int, rng: np.random.Generator) -> list[Row]:
    """Measure confirmations; the level is theirs."""
    rows, most = list[Row](), binom.isf(1e-3, studies, 1 - confirmation.LEVEL)
    for trust in MEASURED:
        for name, truth in confirmation.TRUTHS.items():
            study = confirmation.study_of(TRUSTS[trust], truth)
            outside, _, ratio = confirmation.run(study, truth, studies, rng, compared=0)
            rows.append(Row(phases=studies, good=outside <= most and ratio <= LARGEST_RATIO))
            print(
                f"{trust:<20}{'confirmed':<11}{name:<15}{studies:7,d}{outside / studies:11.5f}{'':>11}"
                f"{ratio:8.3f}   {'ok' if rows[-1].good else 'MISSED'}",
                flush=True,
            )
    return rows


def pooled_rows() -> bool:
    """Measure the bounds of all phases together; return whether the limits are met."""
    found = [identification.coverage(trust, 1300) for trust in identification.BUDGETS]
    return all(found)


def main(kinds: list[str], draws: int, rng: np.random.Generator) -> bool:
    """Print all rows of some kinds; return whether all limits are met."""
    good = "pooled" not in kinds or pooled_rows()
    measured = {
        "variance": lambda: variance_rows(5 * draws, rng),
        "misfit": lambda: misfit_rows(draws, rng),
        "confirmation": lambda: confirmation_rows(5 * draws // 2, rng),
    }
    for name in kinds:
        if name in measured:
            rows = measured[name]()
            print(f"{name}: {sum(row.phases for row in rows):,} phases", flush=True)
            good &= all(row.good for row in rows)
    return good
