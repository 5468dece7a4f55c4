"""Compare kernel columns with linear columns and one column per option, on mean rewards that are a curve.

60 prices from 4 to 26. The share of buyers falls with the price, so that the revenue rises and falls:

    mean reward = price/8/(1 + exp((price − 14)/3.5)) − .6,   between −.5 and .37.

σ = .1, normal rewards, shuffle (1, 10⁻⁶), 10⁴ participants at most, and 10⁶ rounds. A study stops asking once
its best guess is certain, at confidence .95, to be within .02 of the best option. The encodings are

- linear: an intercept and the price;
- square: also the square of the price;
- kernel: `Kernel(length_scale=0.5, rank=9)`, without a misfit, and with the one that docs/theory.md proves;
- one each: one column per option, which assumes nothing.

`off` is how far the mean rewards are from a linear function of the columns (least squares). `dropped` is the
share of studies that dropped the best option, `found` the share whose last guess is within .02 of the best,
`asked` the mean number of participants, and `left` the mean number of options at the end. `test` is the share
of fit tests, planned to notice .03, that report a lack of fit. The kernel's rows fail if more than 5 % of
studies drop the best option, or if more than 5 % end with an option that is worse by more than .02.

    python benchmarks/kernel.py [--studies 40] [--tests 50] [--only kernel]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dpbandits.errors import InvalidValue
from dpbandits.options import Kernel, Number, Options
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Study, ask, fit_verdict, plan_study, reserved_fit_test, simulate_groups, tell
from dpbandits.simulation import simulate
from dpbandits.world import Instance, Population

FloatArray = NDArray[np.float64]

PRICES = np.linspace(4, 26, 60)
KERNEL = Kernel(length_scale=0.5, rank=9)
SHUFFLE = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6)
PARTICIPANTS, HORIZON, SIGMA, CONFIDENCE, GAP, NOTICED = 10**4, 10**6, 0.1, 0.95, 0.02, 0.03


def encodings() -> dict[str, Options]:
    """Return the same options in each encoding."""
    table = {"name": [f"{price:.2f}" for price in PRICES], "price": PRICES.tolist()}
    return {
        "linear": Options.from_table(table),
        "square": Options.from_table(table, features={"price": Number(squared=True)}),
        "kernel": Options.from_table(table, kernel=KERNEL),
        "one each": Options.from_table({**table, "which": table["name"]}, features=["which"]),
    }


def truth() -> FloatArray:
    """Return the mean rewards, in the order of the options."""
    return PRICES / 8 / (1 + np.exp((PRICES - 14) / 3.5)) - 0.6


def norm_of(means: FloatArray) -> float:
    """Return the least norm of a function of the kernel's space that has these means up to a constant.

    Directions whose eigenvalues are only rounding errors are left out: the means have almost no part in them.
    """
    points = np.linspace(-1, 1, len(means))
    gram = KERNEL.similarity(np.square(points[:, None] - points[None, :]))
    origin = len(means) // 2
    increments, rest = gram - gram[:, [origin]] - gram[[origin], :] + 1, means - means[origin]
    values, vectors = np.linalg.eigh(increments)
    kept = values > 1e-11 * values[-1]
    return float(np.sqrt(np.sum(np.square(vectors.T @ rest)[kept] / values[kept])))


def study_of(options: Options, misfit: float) -> Study:
    """Return a planned study that stops when it is sure."""
    return plan_study(
        actions=options.actions,
        horizon=HORIZON,
        participants=PARTICIPANTS,
        privacy=SHUFFLE,
        heterogeneity=SIGMA,
        confidence=CONFIDENCE,
        stop_when_decided=True,
        stop_gap=GAP,
        objective="identification",
        misfit=misfit,
    )


def reported(study: Study, people: Population, tests: int) -> float | None:
    """Return the share of fit tests that report a lack of fit; None if no test is possible."""
    try:
        test = reserved_fit_test(replace(study, misfit=0.0), PARTICIPANTS, NOTICED)
    except InvalidValue:  # with one column per option nothing can be tested
        return None
    smallest = replace(study.schedule, cohorts=study.schedule.cohorts[:1])  # type: ignore[index]
    tested, found = replace(study, misfit=0.0, schedule=smallest, fit_test=test), 0
    for number in range(tests):
        rng = np.random.default_rng([1, number])
        state, noise = tested.begin(), SimulatedNoise(rng)
        while (plan := ask(state)).asks:
            averages = tested.assignment_rule.simulate(plan, people, rng)
            state = tell(state, plan, simulate_groups(plan, averages, noise)[0])
        assert state.fit_test_evidence is not None
        found += not fit_verdict(tested, state.fit_test_evidence).explained
    return found / tests


def measured(name: str, options: Options, misfit: float, studies: int, tests: int) -> bool:
    """Run the studies of one encoding, print a row, and return whether it meets its limits."""
    matrix, means = options.actions.matrix, truth()
    off = float(np.abs(means - matrix @ np.linalg.lstsq(matrix, means, rcond=None)[0]).max())
    instance = Instance(options.actions, np.zeros(matrix.shape[1]), measured=means)
    people, study = Population(instance, heterogeneity=SIGMA), study_of(options, misfit)
    traces = [simulate(study, people, seed=seed) for seed in range(studies)]
    dropped = float(np.mean([not one.best_action_survived for one in traces]))
    found = float(np.mean([one.final_gap <= GAP for one in traces]))
    asked = float(np.mean([one.participants for one in traces]))
    left = float(np.mean([one.actions_left for one in traces]))
    share = None if misfit else reported(study, people, tests)
    met = not name.startswith("kernel") or (dropped <= 1 - CONFIDENCE and found >= CONFIDENCE)
    print(
        f"{name:>20}{matrix.shape[1]:>9}{off:>8.3f}{dropped:>9.1%}{found:>8.1%}{asked:>8,.0f}{left:>6.1f}"
        f"{'' if share is None else f'{share:.0%}':>7}{'' if met else '  FAILED'}",
        flush=True,
    )
    return met


def main() -> int:
    """Print one row per encoding; return 1 if a row of the kernel fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=40)
    parser.add_argument("--tests", type=int, default=50)
    parser.add_argument("--only", help="one encoding")
    given, made = parser.parse_args(), encodings()
    norm, left_out = norm_of(truth()), made["kernel"].left_out
    print(
        f"norm of the mean reward {norm:.2f}, left out {left_out:.4f}: misfit at most {norm * left_out:.4f}"
    )
    print("            encoding  columns     off  dropped   found   asked  left   test")
    rows = [(name, options, 0.0) for name, options in made.items()]
    rows.insert(3, ("kernel, misfit told", made["kernel"], norm * left_out))
    chosen = [row for row in rows if given.only in (None, row[0])]
    met = [measured(*row, given.studies, given.tests) for row in chosen]
    return 0 if all(met) else 1


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
