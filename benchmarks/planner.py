"""Compares the planned schedule with eight simple ones, and its predicted regret with simulations.

A grid of 240 settings and three named examples, all with paired seeds: the plans of a setting are simulated
with the same θ*, clients and noise seeds. θ* with near ties are drawn more often, with smaller weights: they
are rare and dominate the mean. All means are weighted. Wrong guesses at the end of a study are rare, too, and
dominate the mean: regrets are averaged over the errors of the last estimate (`averaged_regret.py`). Finished
settings are kept in a file, one JSON line each, and are not repeated.

    python benchmarks/planner.py [--most 1280] [--share 1/4] [--sample 30] [--file PATH.jsonl]

`--share I/N` runs the I-th of N parts, `--sample M` a random choice of M settings with the examples. The
targets are: at most 1.15 times the best of the eight in 90 % of the settings, nowhere above 1.5 times by more
than two standard errors, and predicted over simulated mean between .67 and 1.5 in 90 % of the settings.

Every setting has at least 80 seeds. From 40 seeds on, after each batch of 20, simple plans that are clearly
not the best get no more seeds. From 80 on, no simple plan gets more once the ratio to the best one is clear.
A setting ends when both of its figures are on one side of their limits by more than three standard errors,
when the standard errors are small, or at `--most` seeds.

Two more figures check the averages over errors, on all runs of all settings: the realised regret divided by
the averaged one, and the squared errors of the estimates in units of their variances. Both should be 1.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from averaged_regret import Run, averaged_run
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Spending, Study, budgeted, predict, spent
from dpbandits.protocol._near_ties import drawn_parameters
from dpbandits.world import Instance, Population

PRIVACY = (
    ("none", 1.0, 1e-6),
    *(("central", epsilon, delta) for epsilon, delta in ((0.3, 1e-6), (1.0, 1e-6), (1.0, 0.0))),
    *(("shuffle", epsilon, 1e-6) for epsilon in (0.3, 1.0, 3.0)),
    *(("local", epsilon, delta) for epsilon, delta in ((1.0, 0.0), (3.0, 1e-6), (10.0, 0.0))),
)
PARTICIPANTS = (100, 500, 2_000, 10_000, 50_000)
HORIZONS = (10**3, 10**4, 10**5, 10**6, 10**7)
ACTIONS = (6, 60, 300, 1_000)
DIMENSIONS = (3, 8, 20)
HETEROGENEITY = (0.1, 0.75)
FAMILIES = ("sphere", "mixed options", "low-rank")
SETTINGS = 240
TRUTH = 987  # the seed of the simulated θ*, which are not those of the prediction
WITHIN, NEVER, LOW, HIGH, SHARE = 1.15, 1.5, 0.67, 1.5, 0.9
BATCH, FIRST, FEWEST = 20, 40, 80  # seeds: added at a time, before a plan is left out, and the fewest
CLEARLY = 3.0  # standard errors
EXACT, NEAR = 0.02, 0.05  # relative standard errors that are small enough: of a ratio, and of a mean


@dataclass(frozen=True, kw_only=True)
class Case:
    """One setting. `name` is empty in the grid."""

    trust: str
    epsilon: float
    delta: float
    participants: int
    horizon: int
    actions: int
    dimension: int
    heterogeneity: float
    family: str
    name: str = ""

    @property
    def key(self) -> str:
        """The line of the file belongs to this key."""
        return json.dumps(asdict(self), sort_keys=True)

    def study(self) -> Study:
        """Return the study before it is planned."""
        return Study(
            actions=drawn_actions(self.family, self.actions, self.dimension),
            horizon=self.horizon,
            bounded_rewards=False,
            heterogeneity=self.heterogeneity,
            privacy=PrivacyRequest(trust=self.trust, epsilon=self.epsilon, delta=self.delta),
            schedule=Schedule(cohorts=(self.participants,), first_length=2),
        )


COMMON = {"heterogeneity": 0.1, "horizon": 10**5}
EXAMPLES = (
    Case(name="few people, local ε = 10", trust="local", epsilon=10, delta=0, participants=100, actions=1000,
         dimension=3, family="sphere", **COMMON),  # type: ignore[arg-type]
    Case(name="many options, shuffle ε = .3", trust="shuffle", epsilon=0.3, delta=1e-6, participants=2000,
         actions=1000, dimension=20, family="mixed options", **COMMON),  # type: ignore[arg-type]
    Case(name="sixty options, shuffle ε = 1/3", trust="shuffle", epsilon=0.333, delta=1e-6, participants=500,
         actions=60, dimension=8, family="mixed options", **COMMON),  # type: ignore[arg-type]
)  # fmt: skip


def drawn_actions(family: str, count: int, dimension: int) -> Actions:
    """Return the actions of a setting.

    Mixed options have a constant feature, features that are 0 or 1, and features between −1 and 1.
    """
    if family != "mixed options":
        return Actions.generate(family, count=count, dimension=dimension, rng=1)
    rng, half = np.random.default_rng(1), (dimension - 1) // 2
    switches = rng.integers(0, 2, (count, half))
    amounts = rng.uniform(-1, 1, (count, dimension - 1 - half))
    rows = np.hstack([np.ones((count, 1)), switches, amounts])
    return Actions(rows / np.linalg.norm(rows, axis=1).max())


def grid() -> list[Case]:
    """Return the settings: a fixed random choice from all combinations."""
    every = list(
        itertools.product(PRIVACY, PARTICIPANTS, HORIZONS, ACTIONS, DIMENSIONS, HETEROGENEITY, FAMILIES)
    )
    chosen = np.random.default_rng(0).permutation(len(every))[:SETTINGS]
    names = ("participants", "horizon", "actions", "dimension", "heterogeneity", "family")
    cases = list[Case]()
    for (trust, epsilon, delta), *values in (every[place] for place in chosen):
        own: dict[str, Any] = dict(zip(names, values, strict=True))
        cases.append(Case(trust=trust, epsilon=epsilon, delta=delta, **own))
    return cases


def simple_plans(case: Case) -> dict[str, Spending]:
    """Return the eight plans: 1, 2 and 4 equal cohorts and 3 growing ones, each with two first lengths."""
    plans = dict[str, Spending]()
    for (name, phases, growth), factor in itertools.product(
        (("1", 1, 1.0), ("2 equal", 2, 1.0), ("4 equal", 4, 1.0), ("3 growing", 3, 3.0)), (3, 30)
    ):
        schedule = Schedule.shared(
            case.participants,
            phases=phases,
            first_length=min(factor * case.dimension, max(1, case.horizon // 4)),
            growth=4,
            cohort_growth=growth,
        )
        plans[f"{name}, {factor}d"] = Spending(schedule=schedule, design_tolerance=1.3)
    return plans


def examine(case: Case, most: int) -> dict[str, Any]:
    """Plan and simulate one setting, with at most `most` seeds."""
    study = case.study()
    started = time.process_time()
    found = budgeted(study, case.participants)
    seconds = time.process_time() - started
    plans = {"budgeted": found, **simple_plans(case)}
    line: dict[str, Any] = {
        "case": asdict(case),
        "seconds": seconds,
        "cohorts": found.schedule.cohorts,
        "first_length": found.schedule.first_length,
        "growth": found.schedule.growth,
        "tolerance": found.design_tolerance,
        "predicted": predict(spent(study, found)).regret,
        "regrets": {name: [] for name in plans},
        "checks": [0.0] * 4,
    }
    drawn = drawn_parameters(study.actions, most, TRUTH)
    studies = {name: spent(study, plan) for name, plan in plans.items()}
    running = list(plans)
    for first in range(0, most, BATCH):
        last = min(first + BATCH, most)
        for seed in range(first, last):
            instance = Instance(study.actions, drawn.thetas[seed])
            people = Population(instance, heterogeneity=case.heterogeneity)
            for name in running:
                add(line, name, averaged_run(studies[name], people, seed=seed), drawn.weights[seed])
        line["weights"] = drawn.weights[:last].tolist()
        verdict = Verdict.of(line)
        if last >= FEWEST and verdict.compared and verdict.predicted:
            break
        if last >= FIRST:
            running = ["budgeted", *(verdict.possible if last < FEWEST or not verdict.compared else ())]
    return line


def add(line: dict[str, Any], name: str, run: Run, weight: float) -> None:
    """Add one run to the line of its setting."""
    line["regrets"][name].append(run.regret)
    added = (weight * run.realised, weight * run.regret, run.squares, run.numbers)
    line["checks"] = [sum(pair) for pair in zip(line["checks"], added, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How one setting compares with the targets.

    Attributes:
        mean: The mean regret of the plan.
        error: Its standard error.
        ratio: The mean regret of the plan over the least mean of the simple plans.
        ratio_error: The standard error of the ratio.
        agreement: The predicted over the simulated mean.
        possible: The simple plans that may have the least expected regret.
    """

    mean: float
    error: float
    ratio: float
    ratio_error: float
    agreement: float
    possible: tuple[str, ...]

    @staticmethod
    def of(line: dict[str, Any]) -> Verdict:
        """Compute the figures of one line of the file."""
        weights, own = np.array(line["weights"]), np.array(line["regrets"]["budgeted"])
        simple = {name: np.array(one) for name, one in line["regrets"].items() if name != "budgeted"}
        seeds = max(map(len, simple.values()))  # plans that have fewer are clearly not the best
        simple = {name: one for name, one in simple.items() if len(one) == seeds}
        best = min(simple.values(), key=lambda values: weighted(values, weights)[0])
        (mean, error), least = weighted(own, weights), weighted(best, weights)[0]
        ratio = weighted(own[:seeds], weights)[0] / least

        def may_be_best(values: Any) -> bool:
            excess, error = weighted(values - best, weights)
            return excess <= CLEARLY * error

        return Verdict(
            mean=mean,
            error=error,
            ratio=ratio,
            ratio_error=weighted(own[:seeds] - ratio * best, weights)[1] / least,
            agreement=line["predicted"] / mean,
            possible=tuple(name for name, values in simple.items() if may_be_best(values)),
        )

    @property
    def far(self) -> bool:
        """Whether the plan is above 1.5 times the best simple one by more than two standard errors."""
        return self.ratio > NEVER + 2 * self.ratio_error

    @property
    def compared(self) -> bool:
        """Whether it is clear on which side of its limit the ratio is, or the error is small."""
        return self.ratio_error <= max(EXACT * self.ratio, abs(self.ratio - WITHIN) / CLEARLY)

    @property
    def predicted(self) -> bool:
        """Whether the same is true of the agreement and its limits."""
        relative = self.error / self.mean
        clear = [abs(math.log(self.agreement / limit)) > CLEARLY * relative for limit in (LOW, HIGH)]
        return relative <= NEAR or all(clear)


def weighted(values: Any, weights: Any) -> tuple[float, float]:
    """Return the weighted mean of the values and its standard error; there may be more weights."""
    weights = weights[: len(values)]
    mean = float(np.average(values, weights=weights))
    pairs = (weights * (np.array(values) - mean)).reshape(-1, 2).sum(axis=1)  # two θ* share a circle
    return mean, float(np.sqrt(np.sum(pairs**2)) / np.sum(weights))


def checks(lines: list[dict[str, Any]]) -> str:
    """Return the figures that check the averages over errors, with standard errors over settings."""
    realised, averaged, squares, numbers = np.array([line["checks"] for line in lines]).T
    shares, count = realised / averaged, np.sqrt(len(lines))
    each, ratio = squares / np.maximum(numbers, 1), squares.sum() / numbers.sum()
    return (
        f"realised ÷ averaged regret, mean over settings: {shares.mean():.3f} ± {shares.std() / count:.3f}\n"
        f"squared errors ÷ variances: {ratio:.3f}, of single settings {each[numbers > 0].min():.2f} to "
        f"{each.max():.2f}"
    )


def described(line: dict[str, Any]) -> str:
    """Return one line of text for one setting."""
    case, verdict = Case(**line["case"]), Verdict.of(line)
    title = case.name or (
        f"{case.trust} {case.epsilon:g} {case.delta:g} N={case.participants} T={case.horizon:g} "
        f"k={case.actions} d={case.dimension} σ={case.heterogeneity} {case.family}"
    )
    plan = " ".join(map(str, line["cohorts"]))
    return (
        f"{title:<68} {verdict.mean:11,.0f} ± {verdict.error:<9,.0f}"
        f"÷ best {verdict.ratio:5.2f} ± {verdict.ratio_error:4.2f} predicted ÷ simulated "
        f"{verdict.agreement:5.2f}  {len(line['weights']):4} seeds {line['seconds']:4.1f} s  "
        f"{plan} × {line['first_length']}"
    )


def summary(lines: list[dict[str, Any]]) -> bool:
    """Print the figures of all settings; return whether every target is met."""
    verdicts = [Verdict.of(line) for line in lines]
    within = float(np.mean([one.ratio <= WITHIN for one in verdicts]))
    agree = float(np.mean([LOW <= one.agreement <= HIGH for one in verdicts]))
    above = sum(one.ratio > WITHIN + 2 * one.ratio_error for one in verdicts)
    far = sum(one.far for one in verdicts)
    seconds = [line["seconds"] for line in lines]
    print(
        f"\n{len(lines)} settings: at most {WITHIN} × the best of eight in {within:.0%} "
        f"(target {SHARE:.0%}), the median ratio is {np.median([one.ratio for one in verdicts]):.2f}\n"
        f"above {WITHIN} × by more than two standard errors: {above}\n"
        f"above {NEVER} × by more than two standard errors: {far} (target 0)\n"
        f"predicted ÷ simulated between {LOW} and {HIGH} in {agree:.0%} (target {SHARE:.0%})\n"
        f"planning took {min(seconds):.1f} to {max(seconds):.1f} s of processor time\n{checks(lines)}"
    )
    return within >= SHARE and far == 0 and agree >= SHARE


def chosen_cases(options: argparse.Namespace) -> list[Case]:
    """Return the settings that the options ask for."""
    cases = [*EXAMPLES, *grid()]
    if options.sample is not None:
        cases = cases[: len(EXAMPLES) + options.sample]  # the grid is in random order already
    part, parts = map(int, options.share.split("/"))
    return cases[part - 1 :: parts]


def run(cases: list[Case], options: argparse.Namespace, show: Callable[[str], None]) -> list[dict[str, Any]]:
    """Examine all settings that the file does not have yet."""
    kept = dict[str, dict[str, Any]]()
    if options.file.exists():
        for text in options.file.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            kept[Case(**line["case"]).key] = line
    lines = list[dict[str, Any]]()
    for case in cases:
        line = kept.get(case.key)
        if line is None:
            line = json.loads(json.dumps(examine(case, options.most)))
            with options.file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        lines.append(line)
        show(described(line))
    return lines


def main() -> int:
    """Run the settings and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1280)
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--file", type=Path, default=Path("planner.jsonl"))
    options = parser.parse_args()
    with threadpool_limits(limits=1):
        lines = run(chosen_cases(options), options, lambda text: print(text, flush=True))
    return int(not summary(lines))


if __name__ == "__main__":
    sys.exit(main())
