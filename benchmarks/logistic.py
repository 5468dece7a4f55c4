"""Would a logistic reward model give narrower intervals than the linear one for clicks? A prototype.

20 options with click rates of 1 to 3 %, central ε = 1, and three phases of 1,500, 2,500 and 6,000 clients
with a stated variance of at most .03, as in benchmarks/clicks.py. All clients have the same rates: a logistic
model of clients who differ would need more. Widths are those of the lead of the best option over each other
one, at the study's confidence of .95 for all of them: means over options and studies, in percentage points.
`quantile` is the .95-quantile of the absolute errors, and `outside` the share of errors above their widths,
which must be at most 5 %.

- 20 columns: one per option, as in benchmarks/clicks.py. Every option is played.
- 5 columns: an intercept and four features. The options of a G-optimal design are played. Either the rates or
  their log-odds are linear in the features. In the second case the linear model needs a misfit to be right:
  the smallest that is true. `products` adds squares and products of features, 15 columns.

The logistic model states that the log-odds of a click are ⟨θ*, x⟩. Its prototype is one step of Newton's
method (docs/theory.md has the proof): the second phase gives θ₀ and bounds on all ⟨θ* − θ₀, x⟩. The estimate
of the third phase is linear in the released means, so its error has the same radii as that of the linear
model. What remains is a bound on the curvature, which `first order` leaves out.

    python benchmarks/logistic.py [--studies 40]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import expit, logit
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.design import near_g_optimal
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Schedule, Steps, Study, ask, fitted, simulate_groups, tell
from dpbandits.protocol._misfit import misfit_bias
from dpbandits.protocol.assignment import MeanErrors
from dpbandits.world import Instance, Population

FloatArray = NDArray[np.float64]
CENTRAL = PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
COUNT, LOW, HIGH, VARIANCE = 20, 0.01, 0.03, 0.03
COHORTS = (1500, 2500, 6000)
MISFIT = 0.0005  # .05 percentage points
SMALLEST_RATE = 1e-5  # rates below this are treated as this, so that log-odds are finite


def study_of(count: int) -> Study:
    """Return a study of some options with one column each; rewards 0 and 1 become −1 and 1."""
    return Study(
        actions=Actions(np.eye(count)),
        horizon=10**7,
        privacy=CENTRAL,
        schedule=Schedule(cohorts=COHORTS, first_length=16 * COUNT, growth=3.0),
        heterogeneity=0.0,
        confidence=0.95,
        reward_range=(0.0, 1.0),
        reward_variance=4 * VARIANCE,
        steps=Steps().without("whitened"),
    )


@dataclass(frozen=True, kw_only=True)
class Released:
    """What one phase released: the rates of the played options, up to `errors`."""

    rates: FloatArray
    errors: MeanErrors

    def radius(self, coefficients: FloatArray, chance: float) -> FloatArray:
        """Return what a combination of the errors exceeds with at most this probability, on each side."""
        return self.errors.radius(coefficients, coefficients, confidence=chance) / 2

    @property
    def precisions(self) -> FloatArray:
        """One divided by the variance of each released rate."""
        return 4 / self.errors.variances


def releases(rates: FloatArray, seed: int) -> list[Released]:
    """Run all phases without dropping any option."""
    rng, study = np.random.default_rng(seed), study_of(len(rates))
    instance = Instance(study.actions, np.zeros(len(rates)), measured=2 * rates - 1)
    people, noise = Population(instance, heterogeneity=0.0, rewards="bernoulli"), SimulatedNoise(rng)
    state = study.begin()
    while (plan := ask(state)).asks:
        reported = study.assignment_rule.simulate(plan, people, rng)
        state = replace(tell(state, plan, simulate_groups(plan, reported, noise)[0]), active=state.active)
    found = list[Released]()
    for evidence in state.history:
        rows = np.argsort(evidence.plan.support)
        assert np.array_equal(rows, np.arange(len(rates)))
        errors = fitted(study, evidence.unfitted).errors
        found.append(Released(rates=(np.array(evidence.means) + 1) / 2, errors=errors))
    return found


def others_than(best: int) -> NDArray[np.int64]:
    """Return all options but one."""
    return np.flatnonzero(np.arange(COUNT) != best)


def solved(rows: FloatArray, precisions: FloatArray, wanted: FloatArray) -> FloatArray:
    """Return the coefficients of weighted least squares: a·rows = wanted, with the least variance."""
    weighted = rows * precisions[:, None]
    return np.asarray(np.linalg.solve(rows.T @ weighted, wanted.T).T @ weighted.T, dtype=np.float64)


def linear_leads(
    last: Released, matrix: FloatArray, played: list[int], best: int, misfit: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Return the estimated leads of the best option and their widths."""
    others = others_than(best)
    coefficients = solved(matrix[played], last.precisions, matrix[best] - matrix[others])
    widths = last.radius(coefficients, chance_of())
    if misfit:
        widths += misfit * misfit_bias(coefficients, support=played, actions=others, towards=best)
    return coefficients @ last.rates, widths


def chance_of() -> float:
    """Return the failure probability of one bound, which is the same in all studies of this program."""
    return study_of(COUNT).bound_failure


@dataclass(frozen=True, kw_only=True)
class Prior:
    """θ₀ from the second phase, and bounds on ⟨θ* − θ₀, x⟩ for every option x.

    The released rate of each played option is within a radius of the truth, jointly for both sides of all
    options and the last two phases with the failure probability `chance`. Log-odds grow with the rate, so
    these are linear inequalities of θ*, and the bounds are linear programs.
    """

    theta: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(
        cls, phases: list[Released], matrix: FloatArray, played: list[int], chance: float, misfit: float
    ) -> Prior:
        """Compute θ₀ and the bounds, if rates deviate from the model by at most a misfit."""
        rows, rates = matrix[played], np.clip(phases[0].rates, SMALLEST_RATE, 0.5)
        weights = np.sqrt(phases[0].precisions) * rates * (1 - rates)
        theta = np.linalg.lstsq(rows * weights[:, None], logit(rates) * weights, rcond=None)[0]
        high, low = np.full(len(rows), np.inf), np.full(len(rows), -np.inf)
        for one in phases:
            radii = one.radius(np.eye(len(rows)), chance / (2 * len(phases) * len(rows))) + misfit
            high = np.minimum(high, logit(np.clip(one.rates + radii, SMALLEST_RATE, 0.5)))
            low = np.maximum(low, logit(np.clip(one.rates - radii, SMALLEST_RATE, 0.5)))
        limits = np.concatenate([high - rows @ theta, rows @ theta - low])
        inequalities = np.vstack([rows, -rows])

        def highest(row: FloatArray) -> float:
            return -float(linprog(-row, A_ub=inequalities, b_ub=limits, bounds=(None, None)).fun)

        return cls(
            theta=theta,
            low=np.array([-highest(-row) for row in matrix]),
            high=np.array([highest(row) for row in matrix]),
        )


def logistic_leads(
    phases: list[Released], matrix: FloatArray, played: list[int], best: int, misfit: float = 0.0
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the estimated leads, their widths to first order, and their proved widths."""
    chance, last, others = chance_of(), phases[-1], others_than(best)
    prior = Prior.of(phases[-2:], matrix, played, chance / 2, misfit)
    centres = matrix @ prior.theta
    rates, slopes = expit(centres), expit(centres) * expit(-centres)
    # Log-odds are below 0, where the curve is convex: it is above its tangent by at most this much.
    assert np.all(centres + prior.high < 0)
    ends = [expit(centres + end) - rates - slopes * end for end in (prior.low, prior.high)]
    above = np.maximum(*ends)
    wanted = slopes[best] * matrix[best] - slopes[others, None] * matrix[others]
    coefficients = solved(slopes[played, None] * matrix[played], last.precisions, wanted)
    estimates = rates[best] - rates[others] + coefficients @ (last.rates - rates[played])
    up = np.maximum(coefficients, 0) @ above[played] + above[others]
    down = np.maximum(-coefficients, 0) @ above[played] + above[best]
    proved = last.radius(coefficients, chance / 2) + np.maximum(up, down)
    if misfit:
        proved += misfit * misfit_bias(coefficients, support=played, actions=others, towards=best)
    return estimates, last.radius(coefficients, chance), proved


def with_features(rng: np.random.Generator) -> tuple[Actions, FloatArray]:
    """Return options with an intercept and four features, and their position on a line, from 0 to 1."""
    features = rng.uniform(-1, 1, (COUNT, 4))
    line = features @ np.array([1.0, -0.8, 0.6, 0.4])
    rows = np.column_stack([np.ones(COUNT), features])
    place = (line - line.min()) / (line.max() - line.min())
    return Actions(rows / np.linalg.norm(rows, axis=1).max()), place


def with_products(matrix: FloatArray) -> FloatArray:
    """Return the rows with the squares and products of all features as further columns."""
    pairs = [matrix[:, i] * matrix[:, j] for i in range(1, 5) for j in range(i, 5)]
    rows = np.column_stack([matrix, *pairs])
    return np.asarray(rows / np.linalg.norm(rows, axis=1).max(), dtype=np.float64)


def least_misfit(matrix: FloatArray, rates: FloatArray) -> float:
    """Return the least largest deviation of the rates from a linear function of the features."""
    column = np.ones((len(matrix), 1))
    sides = np.vstack([np.hstack([matrix, -column]), np.hstack([-matrix, -column])])
    cost = np.r_[np.zeros(matrix.shape[1]), 1.0]
    return float(linprog(cost, A_ub=sides, b_ub=np.r_[rates, -rates], bounds=(None, None)).fun)


def compared(studies: int) -> dict[str, list[tuple[FloatArray, FloatArray]]]:
    """Return the errors and widths of the leads of the best option in every row of the table."""
    found: dict[str, list[tuple[FloatArray, FloatArray]]] = {}

    def note(name: str, rates: FloatArray, estimates: FloatArray, widths: FloatArray) -> None:
        best = int(np.argmax(rates))
        errors = estimates - (rates[best] - rates[others_than(best)])
        found.setdefault(name, []).append((errors, widths))

    for seed in range(studies):
        actions, place = with_features(np.random.default_rng([7, seed]))
        best, everything = int(np.argmax(place)), list(range(COUNT))
        products = with_products(actions.matrix)
        straight = LOW + place * (HIGH - LOW)
        curved = expit(logit(LOW) + place * (logit(HIGH) - logit(LOW)))
        for name, matrix, played in (
            ("20 columns", np.eye(COUNT), everything),
            ("5 columns", actions.matrix, near_g_optimal(actions.matrix).support.tolist()),
            ("products", products, near_g_optimal(products).support.tolist()),
        ):
            if name != "products":
                last = releases(straight[played], seed)[-1]
                note(f"{name}, linear rates: linear", straight, *linear_leads(last, matrix, played, best))
            phases = releases(curved[played], seed)
            misfit = least_misfit(matrix, curved)
            known = linear_leads(phases[-1], matrix, played, best, misfit)
            note(f"{name}, linear log-odds: linear, with misfit", curved, *known)
            if name == "products":
                continue
            estimates, first, proved = logistic_leads(phases, matrix, played, best)
            note(f"{name}, linear log-odds: logistic, first order", curved, estimates, first)
            note(f"{name}, linear log-odds: logistic, proved", curved, estimates, proved)
            estimates, _, proved = logistic_leads(phases, matrix, played, best, MISFIT)
            note(f"{name}, linear log-odds: logistic, misfit .05", curved, estimates, proved)
    return found


def main() -> int:
    """Print the table; return 1 if more than 5 % of the errors of a row exceed their widths."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=40)
    studies, failed = parser.parse_args().studies, False
    print(f"{'':56}{'width':>8}{'quantile':>10}{'outside':>9}")
    for name, rows in compared(studies).items():
        errors, widths = (np.concatenate(one) for one in zip(*rows, strict=True))
        quantile, outside = np.quantile(np.abs(errors), 0.95), np.mean(np.abs(errors) > widths)
        print(f"{name:56}{100 * widths.mean():>8.3f}{100 * quantile:>10.3f}{outside:>9.1%}", flush=True)
        failed = failed or bool(outside > 0.05)
    return 1 if failed else 0


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
