"""Coverage of the intervals that `choose` states, over whole studies with people of every kind.

Twelve options (a number and a category, with an intercept: five columns), 600 participants, at most a few
phases, level .9. Every study draws new mean rewards, in which options differ little, so that the best option
and the runner-up are chosen by chance as well. For each trust model and each kind of people the program
prints

- outside: the share of studies whose interval misses the truth, for the mean reward of the best option, for
  its lead over the runner-up, and for its lead over the option in use today. It must be at most 1 − level; a
  row fails if the count exceeds the .999-quantile of a binomial with that probability;
- ratio: half the mean width divided by the empirical level-quantile of |centre − truth|. For normal errors in
  one direction that is fixed beforehand it would be 1. For people of the kinds `simulated` and `drawn` it
  must be at most 1.6; this is judged with at least 500 studies;
- worst: for the kinds `clients` and `table`, the same with the level-quantile that the population has whose
  errors in this direction are largest. No interval can be narrower than that for all populations
  (docs/options.md);
- worse: by how much the mean reward of the recommended option is below that of the option with the highest
  pooled estimate, on average. It must not be above 0 by more than 4 standard errors.

The kinds are: `drawn`, a function with rewards −1 or 1; `clients`, functions with a taste of their own and
unknown heterogeneity; `table`, measured rewards that are correlated within a person; `simulated`, a
population with Gaussian rewards.

    python benchmarks/answers.py [--studies 200] [--seed 0] [--trust shuffle] [--people simulated] [--at-once]

With `--at-once` the averages of a whole cohort are drawn and released in one step, as the simulator does, in
place of one function call per play and one message per client. This has the same distribution and takes a
fraction of the time.

Each row has a random generator of its own, so its figures do not depend on which other rows are computed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm
from threadpoolctl import threadpool_limits

from dpbandits import Category, Found, Instance, Options, Population, PrivacyRequest, SimulatedNoise
from dpbandits.answers import RewardRange
from dpbandits.choosing import People, Ran, answer, people_of, planned
from dpbandits.privacy import NoiseSource
from dpbandits.protocol import LinearFit, Plan, Study, ask, fitted, simulate_groups, tell

FloatArray = NDArray[np.float64]

LEVEL = 0.9
PARTICIPANTS, HORIZON = 600, 10_000
OPTIONS = Options.grid(
    price=[1, 2, 3, 4],
    colour=["red", "green", "blue"],
    features={"colour": Category(baseline="red")},
    current={"price": 2, "colour": "green"},
)
TRUSTS = {
    "none": PrivacyRequest(),
    "central (1, 1e-6)": PrivacyRequest(trust="central", epsilon=1, delta=1e-6),
    "shuffle (1, 1e-6)": PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6),
    "local (10, 1e-6)": PrivacyRequest(trust="local", epsilon=10, delta=1e-6),
}
STATEMENTS = ("mean", "lead", "change")
LARGEST_RATIO, LEAST_JUDGED = 1.6, 500
JUDGED = ("drawn", "simulated")
Kind = Callable[[FloatArray, np.random.Generator], object]


def drawn(means: FloatArray, rng: np.random.Generator) -> object:  # noqa: ARG001
    """Return a function that returns 1 with probability (1 + mean)/2, else −1."""
    chance = {label: (1 + mean) / 2 for label, mean in zip(OPTIONS.labels, means, strict=True)}
    return lambda label, rng: 1.0 if rng.random() < chance[label] else -1.0


def clients(means: FloatArray, rng: np.random.Generator) -> object:
    """Return clients whose own means differ from `means` by a common shift of ±.4."""
    place = {label: place for place, label in enumerate(OPTIONS.labels)}

    def client(shift: float) -> Callable[[str], float]:
        return lambda label: 1.0 if rng.random() < (1 + means[place[label]] + shift) / 2 else -1.0

    return [client(shift) for shift in 0.4 * rng.choice([-1, 1], PARTICIPANTS)]


def table(means: FloatArray, rng: np.random.Generator) -> object:
    """Return rewards −1 or 1 that one uniform number per person decides, so that they are dependent."""
    decided = rng.random((PARTICIPANTS, 1)) < (1 + means) / 2
    return {label: np.where(decided[:, place], 1.0, -1.0) for place, label in enumerate(OPTIONS.labels)}


def simulated(means: FloatArray, rng: np.random.Generator) -> object:  # noqa: ARG001
    """Return a population with Gaussian rewards around these means."""
    theta = np.linalg.lstsq(OPTIONS.actions.matrix, means, rcond=None)[0]
    return Population(Instance(OPTIONS.actions, theta), heterogeneity=0.1)


KINDS: dict[str, Kind] = {"drawn": drawn, "clients": clients, "table": table, "simulated": simulated}


class AtOnce(People):
    """People of a kind, whose whole cohorts are drawn and released in one step."""

    def __init__(self, people: People, kind: str, means: FloatArray) -> None:
        self._kind, self._means = kind, means
        self._population = simulated(means, np.random.default_rng(0)) if kind == "simulated" else None
        self.knowledge, self.heterogeneity = people.knowledge, people.heterogeneity
        self.bounded, self.assignment = people.bounded, people.assignment

    def run(self, study: Study, *, seed: int | None, noise: NoiseSource) -> Ran:
        """Run a study."""
        rng, state = np.random.default_rng(seed), study.begin()
        while (plan := ask(state)).asks:
            reported = plan.reported(self._averages(plan, rng))
            state = tell(state, plan, simulate_groups(plan, [[reported]], noise)[0])
        return Ran(state=state)

    def _averages(self, plan: Plan, rng: np.random.Generator) -> FloatArray:
        if isinstance(self._population, Population):
            return self._population.averages(plan.cohort, plan.support, plan.plays, rng)
        shift = 0.4 * rng.choice([-1, 1], (plan.cohort, 1)) if self._kind == "clients" else 0.0
        chance = np.clip((1 + self._means[list(plan.support)] + shift) / 2, 0, 1)
        if self._kind == "table":
            return np.where(rng.random((plan.cohort, 1)) < chance, 1.0, -1.0)
        plays, shape = np.array(plan.plays), (plan.cohort, len(plan.support))
        return np.asarray(2 * rng.binomial(plays, np.broadcast_to(chance, shape)) / plays - 1)


@dataclass(frozen=True, kw_only=True)
class Stated:
    """One statement of one study: its interval, the truth, and the largest deviation of the estimate."""

    low: float
    high: float
    truth: float
    worst: float

    @property
    def missed(self) -> bool:
        """Whether the truth lies outside."""
        return not self.low - 1e-12 <= self.truth <= self.high + 1e-12

    @property
    def error(self) -> float:
        """How far the centre is from the truth."""
        return abs((self.low + self.high) / 2 - self.truth)


def worst_deviation(found: Found, direction: FloatArray) -> float:
    """Return the standard deviation of an estimate ⟨θ̃, v⟩ in the worst population; the least of all phases.

    In that population a person's rewards are all 1 or all −1 times the signs of a = A'v.
    """
    study, least = found.state.study, np.inf
    for evidence in found.state.history:
        fit = fitted(study, evidence)
        assert isinstance(fit, LinearFit)
        a = fit.map.T @ direction
        noise = evidence.plan.asked_mechanism.error_deviation(evidence.reports) ** 2 * float(a @ a)
        least = min(least, (float(np.abs(a).sum()) ** 2 / evidence.reports + noise) ** 0.5)
    return least


def stated(found: Found, means: FloatArray) -> dict[str, Stated]:
    """Return the three statements of a study with these mean rewards; no `change` if nothing changes."""
    matrix = OPTIONS.actions.matrix
    best, change = OPTIONS.index(found.best), found.lead_over_current
    assert change is not None

    def statement(low: float, high: float, over: str | None) -> Stated:
        other = None if over is None else OPTIONS.index(over)
        truth = float(means[best] - (0 if other is None else means[other]))
        direction = matrix[best] - (0 if other is None else matrix[other])
        return Stated(low=low, high=high, truth=truth, worst=worst_deviation(found, direction))

    statements = {
        "mean": statement(*found.interval, None),
        "lead": statement(found.lead.low, found.lead.high, found.lead.over),
    }
    if found.best != found.current:
        statements["change"] = statement(change.low, change.high, change.over)
    return statements


def run(
    trust: str, kind: str, studies: int, rng: np.random.Generator, *, at_once: bool
) -> tuple[dict[str, list[Stated]], FloatArray]:
    """Run studies of one kind; they share one plan, which does not depend on rewards.

    Returns:
        The statements, and for each study how much worse the recommended option is than the pooled leader.
    """
    seen: dict[str, list[Stated]] = {name: [] for name in STATEMENTS}
    worse, study = list[float](), None
    for _ in range(studies):
        theta = 0.3 * rng.standard_normal(OPTIONS.actions.dimension) / OPTIONS.actions.dimension**0.5
        means = OPTIONS.actions.matrix @ theta
        people = people_of(KINDS[kind](means, rng), OPTIONS, RewardRange())
        if at_once:
            people = AtOnce(people, kind, means)
        if study is None:
            study = planned(
                OPTIONS,
                people,
                participants=PARTICIPANTS,
                horizon=HORIZON,
                privacy=TRUSTS[trust],
                failure=1 - LEVEL,
            )
        seed, noise = int(rng.integers(2**32)), SimulatedNoise(rng)
        found = answer(OPTIONS, study, people, rewards=RewardRange(), level=LEVEL, seed=seed, noise=noise)
        for name, one in stated(found, means).items():
            seen[name].append(one)
        leader = max(found.options, key=lambda one: one.estimate).option
        worse.append(means[OPTIONS.index(leader)] - means[OPTIONS.index(found.best)])
    return seen, np.array(worse)


def report(trust: str, kind: str, name: str, seen: list[Stated]) -> bool:
    """Print a line; return whether the statement holds often enough."""
    missed = sum(one.missed for one in seen)
    covered = missed <= binom.ppf(0.999, len(seen), 1 - LEVEL)
    width = float(np.mean([one.high - one.low for one in seen])) / 2
    ratio = width / max(float(np.quantile([one.error for one in seen], LEVEL)), 1e-300)
    quantile = float(norm.ppf((1 + LEVEL) / 2)) * float(np.mean([one.worst for one in seen]))
    worst = "" if kind in JUDGED else f"{width / quantile:.2f}"
    judged = kind in JUDGED and len(seen) >= LEAST_JUDGED * 0.8  # some studies recommend no change
    narrow = not judged or ratio <= LARGEST_RATIO
    print(
        f"{trust:<19}{kind:<11}{name:<8}{len(seen):8,d}{missed / len(seen):9.3f}{width:9.3f}{ratio:8.2f}"
        f"{worst:>7}   {'ok' if covered else 'MISSED'}{'' if narrow else ', WIDE'}",
        flush=True,
    )
    return covered and narrow


def report_choice(trust: str, kind: str, worse: FloatArray) -> bool:
    """Print how much worse recommended options are than pooled leaders; return whether they are not."""
    mean, error = float(worse.mean()), float(worse.std() / len(worse) ** 0.5)
    print(
        f"{trust:<19}{kind:<11}{'choice':<8}{len(worse):8,d}   worse by {mean:+.5f} ± {error:.5f}", flush=True
    )
    return mean <= 4 * error


def main() -> int:
    """Print the table; return a non-zero status if intervals miss the truth too often."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=200, help="studies per trust model and kind of people")
    parser.add_argument("--seed", type=int, default=0)
    names = [trust.split()[0] for trust in TRUSTS]
    parser.add_argument("--trust", choices=names, help="only this trust model")
    parser.add_argument("--people", choices=list(KINDS), help="only this kind of people")
    parser.add_argument("--at-once", action="store_true", help="draw whole cohorts in one step")
    options = parser.parse_args()
    good = True
    print(
        f"{'trust':<19}{'people':<11}{'about':<8}{'studies':>8}{'outside':>9}{'half':>9}{'ratio':>8}{'worst':>7}"
    )
    with threadpool_limits(limits=1):
        for number, trust in enumerate(TRUSTS):
            for place, kind in enumerate(KINDS if options.trust in (None, names[number]) else ()):
                if options.people not in (None, kind):
                    continue
                rng = np.random.default_rng([options.seed, number, place])
                statements, worse = run(trust, kind, options.studies, rng, at_once=options.at_once)
                for name, seen in statements.items():
                    good &= report(trust, kind, name, seen)
                good &= report_choice(trust, kind, worse)
    print(f"limit: outside {1 - LEVEL:.3g}; ratio {LARGEST_RATIO} for {' and '.join(JUDGED)} people")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
