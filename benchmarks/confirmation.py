"""Coverage and cost of confirmations: intervals that need no model, under truths that no model describes.

Each study has 12 options in five dimensions, of which one is in use today. Its learning phases are fixed. The
confirmation asks the smallest cohort for which `reserved` predicts the wanted half width: .05, or .1 in the
row `heterogeneity`, or .15 where only the range is assumed. Every study has a newly drawn truth:

- misfit: mean rewards deviate from a linear function by up to .3; normal rewards;
- heterogeneity: clients deviate by ±σ, σ = .5, in every option at random; normal rewards; σ is stated;
- binary: rewards are −1 or 1; mean rewards deviate from a linear function by up to .1;
- range: binary rewards; each client's mean reward of an option is near 1 or near −1, and nothing is stated.

For each trust model the program prints

- outside: the share of studies in which an interval of the confirmation misses the truth. It must be at most
  1 − level = .1; a row fails if the count exceeds the .999-quantile of a binomial with that probability;
- model: the same for the model's interval of the mean reward of its best option, in the first 100 studies,
  for comparison; it assumes that mean rewards are linear;
- ratio: 1 divided by the empirical level-quantile of the largest error, in units of the half width of its
  study. It must be at most 1.6;
- cohort, and × optimum: the clients that were asked, divided by the least number with which the intervals of
  the confirmation would have the wanted half width. It must be at most 1.5.

    python benchmarks/confirmation.py [--studies 1000] [--seed 0] [--trust none central shuffle]
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.answers import RewardRange, answer_of, confirmed_of
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Plan,
    Release,
    Schedule,
    State,
    Study,
    ask,
    reserved,
    simulate_groups,
    tell,
)

FloatArray = NDArray[np.float64]
LEVEL, CURRENT = 0.9, 4
ACTIONS = Actions.generate("sphere", count=12, dimension=5, rng=3)
TRUSTS = {
    "none": PrivacyRequest(),
    "central (1, 1e-6)": PrivacyRequest(trust="central", epsilon=1, delta=1e-6),
    "shuffle (1, 1e-6)": PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6),
}
LARGEST_COST, LARGEST_RATIO = 1.5, 1.6
COMPARED = 100  # studies in which the intervals of the model are computed too


@dataclass(frozen=True, kw_only=True)
class Truth:
    """How rewards are drawn.

    Attributes:
        misfit: The largest deviation of mean rewards from a linear function.
        spread: How far the mean rewards of a client deviate from those of all clients.
        binary: Whether rewards are −1 or 1; otherwise they are normal with variance 1.
        stated: The heterogeneity that the study is given; None if only the range is assumed.
        width: The wanted half width.
    """

    misfit: float = 0.0
    spread: float = 0.0
    binary: bool = False
    stated: float | None = None
    width: float = 0.05

    def means(self, rng: np.random.Generator) -> FloatArray:
        """Draw mean rewards."""
        theta = rng.standard_normal(ACTIONS.dimension)
        off = self.misfit * rng.uniform(-1, 1, ACTIONS.count)
        return np.asarray(0.4 * ACTIONS.matrix @ (theta / np.linalg.norm(theta)) + off)

    def averages(self, plan: Plan, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw the averages of a cohort."""
        shape = (plan.cohort, len(plan.support))
        own = means[list(plan.support)] + self.spread * rng.choice((-1.0, 1.0), size=shape)
        plays = np.array(plan.plays)
        if not self.binary:
            return np.asarray(own + rng.standard_normal(shape) / np.sqrt(plays))
        return 2 * rng.binomial(plays, (1 + np.clip(own, -1, 1)) / 2) / plays - 1

    def mean_rewards(self, means: FloatArray) -> FloatArray:
        """The true mean rewards; with binary rewards, means of clients are clipped to [−1, 1]."""
        if not self.binary:
            return means
        return np.asarray(np.mean([np.clip(means + sign * self.spread, -1, 1) for sign in (-1, 1)], axis=0))


TRUTHS = {
    "misfit": Truth(misfit=0.3, spread=0.1, stated=0.1),
    "heterogeneity": Truth(misfit=0.1, spread=0.5, stated=0.5, width=0.1),
    "binary": Truth(misfit=0.1, spread=0.1, binary=True, stated=0.1),
    "range": Truth(misfit=0.1, spread=0.85, binary=True, width=0.15),
}


def study_of(privacy: PrivacyRequest, truth: Truth) -> Study:
    """Return a study with a confirmation of the wanted width. All rows of ACTIONS have norm 1."""
    study = Study(
        actions=ACTIONS,
        horizon=10**6,
        privacy=privacy,
        schedule=Schedule(cohorts=(500,), first_length=100),
        bounded_rewards=truth.binary,
        heterogeneity=0.5 if truth.stated is None else truth.stated,
    )
    assumes = "range" if truth.stated is None else "spread"
    found = reserved(study, 10**5, current=CURRENT, assumes=assumes, width=truth.width)
    return replace(study, confirmation=found)


def after_release(state: State, truth: Truth, means: FloatArray, rng: np.random.Generator) -> State:
    """Return the state after the next phase."""
    plan = ask(state)
    reported = plan.reported(truth.averages(plan, means, rng))
    return tell(state, plan, simulate_groups(plan, [[reported]], SimulatedNoise(rng))[0])


def half_width(study: Study) -> float:
    """Return the half width of the intervals at 95 %, which does not depend on the data."""
    state = study.begin()
    for _ in range(2):
        plan = ask(state)
        zeros = (0.0,) * plan.numbers
        state = tell(state, plan, Release(plan=plan.digest, means=zeros, reports=plan.cohort, simulated=True))
    found = confirmed_of(state, None, level=0.95, rewards=RewardRange(low=-1, high=1))
    assert found is not None
    return max(one.high - one.low for one in found.compared) / 2


def optimum(study: Study, wanted: float) -> int:
    """Return the least cohort of the same plan with which the half width is the wanted one, to 2 %."""
    own = study.confirmation
    assert own is not None
    low, high = 1, own.cohort
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        narrow = half_width(replace(study, confirmation=replace(own, cohort=middle))) <= wanted
        low, high = (low, middle) if narrow else (middle, high)
    return high


def run(
    study: Study, truth: Truth, studies: int, rng: np.random.Generator, *, compared: int = COMPARED
) -> tuple[int, int, float]:
    """Return how often a confirmation and the model miss the truth, and the ratio of widths."""
    outside, model, errors = 0, 0, list[float]()
    for number in range(studies):
        means = truth.means(rng)
        true = truth.mean_rewards(means)
        learnt = after_release(study.begin(), truth, means, rng)
        state = after_release(learnt, truth, means, rng)
        found = confirmed_of(state, None, level=LEVEL, rewards=RewardRange())
        assert found is not None
        names = {f"action {place}": place for place in range(ACTIONS.count)}
        radius = max(one.high - one.low for one in found.compared) / 2
        largest = max(abs(one.estimate - true[names[one.option]] + true[CURRENT]) for one in found.compared)
        errors.append(largest / radius)
        outside += any(
            not one.low <= true[names[one.option]] - true[CURRENT] <= one.high for one in found.compared
        )
        if number < compared:
            one = answer_of(learnt, None, level=LEVEL).options[0]
            model += not one.low <= true[one.action] <= one.high
    return outside, model, 1 / float(np.quantile(errors, LEVEL))


def main() -> int:
    """Print one row per trust model and truth; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trust", nargs="+", default=[""], help="the first word of a row; all by default")
    options = parser.parse_args()
    failed, most = 0, int(binom.isf(1e-3, options.studies, 1 - LEVEL))
    print(f"level {LEVEL:g}, {options.studies} studies; outside at most {most / options.studies:.1%}")
    print(f"{'trust':<20}{'truth':<15}{'outside':>8}{'model':>8}{'ratio':>8}{'cohort':>8}{'× optimum':>11}")
    for trust, privacy in TRUSTS.items():
        if not trust.startswith(tuple(options.trust)):
            continue
        for name, truth in TRUTHS.items():
            study = study_of(privacy, truth)
            rng = np.random.default_rng([options.seed, len(trust), len(name)])
            outside, model, ratio = run(study, truth, options.studies, rng)
            cost = study.confirming / optimum(study, truth.width)
            bad = outside > most or cost > LARGEST_COST or ratio > LARGEST_RATIO
            failed += bad
            missed = model / min(COMPARED, options.studies)
            print(
                f"{trust:<20}{name:<15}{outside / options.studies:>8.1%}"
                f"{missed:>8.1%}{ratio:>8.2f}{study.confirming:>8,}{cost:>11.2f}"
                f"{'  FAILED' if bad else ''}",
                flush=True,
            )
    return 1 if failed else 0


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
