"""Coverage of the intervals that `choose` states, over whole studies with people of every kind.

Twelve options (a number and a category, with an intercept: five columns), 600 participants, at most a few
phases, level .9. Every study draws new mean rewards, in which options differ little, so that the best option
and the runner-up are chosen by chance as well. For each trust model and each kind of people the program
prints

- outside: the share of studies whose interval misses the truth, for the mean reward of the best option, for
  its lead over the runner-up, and for its lead over the option in use today. It must be at most 1 − level; a
  row fails if the count exceeds the .999-quantile of a binomial with that probability;
- ratio: half the mean width divided by the empirical level-quantile of |centre − truth|. For normal errors in
  one direction that is fixed beforehand it would be 1. For people of kind `simulated` it must be at most 1.6;
  this is judged with at least 500 studies;
- worse: by how much the mean reward of the recommended option is below that of the option with the highest
  pooled estimate, on average. It must not be above 0 by more than 4 standard errors.

The kinds are: `drawn`, a function with rewards −1 or 1; `clients`, functions with a taste of their own and
unknown heterogeneity; `table`, measured rewards that are correlated within a person; `simulated`, a
population with Gaussian rewards.

    python benchmarks/answers.py [--studies 200] [--seed 0] [--trust shuffle] [--people simulated]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from dpbandits import Category, Found, Instance, Options, Population, PrivacyRequest, SimulatedNoise
from dpbandits.answers import RewardRange
from dpbandits.choosing import answer, people_of, planned

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
People = Callable[[FloatArray, np.random.Generator], object]


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


KINDS: dict[str, People] = {"drawn": drawn, "clients": clients, "table": table, "simulated": simulated}


@dataclass(frozen=True, kw_only=True)
class Stated:
    """One statement of one study: its interval and the truth."""

    low: float
    high: float
    truth: float

    @property
    def missed(self) -> bool:
        """Whether the truth lies outside."""
        return not self.low - 1e-12 <= self.truth <= self.high + 1e-12

    @property
    def error(self) -> float:
        """How far the centre is from the truth."""
        return abs((self.low + self.high) / 2 - self.truth)


def stated(found: Found, means: FloatArray) -> dict[str, Stated]:
    """Return the three statements of a study with these mean rewards; no `change` if nothing changes."""

    def truth(label: str) -> float:
        return float(means[OPTIONS.index(label)])

    best, change = truth(found.best), found.lead_over_current
    assert change is not None
    low, high = found.interval
    statements = {
        "mean": Stated(low=low, high=high, truth=best),
        "lead": Stated(low=found.lead.low, high=found.lead.high, truth=best - truth(found.lead.over)),
    }
    if found.best != found.current:
        statements["change"] = Stated(low=change.low, high=change.high, truth=best - truth(change.over))
    return statements


def run(
    trust: str, kind: str, studies: int, rng: np.random.Generator
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
    judged = kind == "simulated" and len(seen) >= LEAST_JUDGED * 0.8  # some studies recommend no change
    narrow = not judged or ratio <= LARGEST_RATIO
    print(
        f"{trust:<19}{kind:<11}{name:<8}{len(seen):8,d}{missed / len(seen):9.3f}{width:9.3f}{ratio:8.2f}"
        f"   {'ok' if covered else 'MISSED'}{'' if narrow else ', WIDE'}",
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
    parser.add_argument("--trust", choices=names, help="only this trust model; its figures stay the same")
    parser.add_argument("--people", choices=list(KINDS), help="only this kind of people")
    options = parser.parse_args()
    good = True
    print(f"{'trust':<19}{'people':<11}{'about':<8}{'studies':>8}{'outside':>9}{'half':>9}{'ratio':>8}")
    with threadpool_limits(limits=1):
        for number, trust in enumerate(TRUSTS):
            rng = np.random.default_rng([options.seed, number])
            for kind in KINDS if options.trust in (None, names[number]) else ():
                if options.people not in (None, kind):
                    continue
                statements, worse = run(trust, kind, options.studies, rng)
                for name, seen in statements.items():
                    good &= report(trust, kind, name, seen)
                good &= report_choice(trust, kind, worse)
    print(f"limit: outside {1 - LEVEL:.3g}; ratio {LARGEST_RATIO} for simulated people")
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
