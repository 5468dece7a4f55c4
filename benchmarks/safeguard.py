"""Safeguards: mean losses of phases against the option in use today, and options that are not played again.

Each study has 30 options in five dimensions and a confidence of .95. Clients with normal rewards are
simulated. θ*, of length .3, and the option in use today, one of the five best, are drawn for each study.
The margin is .05 and the allowance .02. For each trust model and objective the program prints

- broken: the share of studies in which a phase loses more than the allowance in truth, or in which an option
  is barred whose true loss is at most the margin. It must be at most .05; a row fails if the count exceeds
  the .999-quantile of a binomial with that probability, or if a barred option is played;
- first, later: the largest mean loss of a first phase and of all other phases, over all studies;
- without: the largest mean loss of a phase in the same studies without the safeguard;
- barred: the mean number of options that are not played again;
- rounds: the mean number of rounds until no more clients are asked, and the same without the safeguard.

The last row has bounds of a fiftieth of their width. It must be rejected.

    python benchmarks/safeguard.py [--studies 200] [--seed 0]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import numpy as np
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import LossBounds, Safeguard, Schedule, State, Study, ask, simulate_groups, tell
from dpbandits.world import Instance, Population

ACTIONS = Actions.generate("sphere", count=30, dimension=5, rng=3)
MARGIN, ALLOWANCE, CONFIDENCE = 0.05, 0.02, 0.95
LENGTH = 0.3  # of θ*
PLANTED = 1 / 50
TRUSTS = {
    "none": PrivacyRequest(),
    "central (1, 1e-6)": PrivacyRequest(trust="central", epsilon=1, delta=1e-6),
    "shuffle (1, 1e-6)": PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-6),
}


def study_of(privacy: PrivacyRequest, objective: str) -> Study:
    """Return the study without its safeguard."""
    return Study(
        actions=ACTIONS,
        horizon=10**7,
        privacy=privacy,
        objective=objective,
        schedule=Schedule(cohorts=(500, 1000, 2000), first_length=60, growth=4),
        bounded_rewards=False,
        confidence=CONFIDENCE,
    )


@dataclass(kw_only=True)
class Found:
    """What some studies did: see the head of the program."""

    broken: int = 0
    first: float = -1.0
    later: float = -1.0
    barred: list[int] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    played_again: int = 0


def states(study: Study, instance: Instance, seed: int) -> Iterator[tuple[State, Any]]:
    """Yield each plan with the state after it."""
    rng, people = np.random.default_rng(seed), Population(instance, heterogeneity=study.heterogeneity)
    state = study.begin()
    while not state.ended:
        plan, release = ask(state), None
        if plan.asks:
            reported = study.assignment_rule.simulate(plan, people, rng)
            release, _ = simulate_groups(plan, reported, SimulatedNoise(rng))
        state = tell(state, plan, release)
        yield state, plan


def run(study: Study, studies: int, seed: int, *, guarded: bool = True) -> Found:
    """Simulate studies, each with its own truth and current option."""
    found = Found()
    for number in range(studies):
        rng = np.random.default_rng([seed, number])
        instance = Instance(ACTIONS, LENGTH * Instance.draw(ACTIONS, rng).theta)
        current = int(rng.choice(np.argsort(-instance.mean_rewards)[:5]))
        own = Safeguard(current=current, margin=MARGIN, allowance=ALLOWANCE) if guarded else None
        losses = instance.mean_rewards[current] - instance.mean_rewards
        broken, barred, asked = False, set[int](), 0
        for after, plan in states(replace(study, safeguard=own), instance, number):
            loss = float(losses[list(plan.support)] @ np.array(plan.plays)) / plan.rounds
            if plan.phase == 1:
                found.first = max(found.first, loss)
            else:
                found.later = max(found.later, loss)
            found.played_again += bool(barred & set(plan.support))
            barred = set(after.barred_actions.tolist())
            broken |= loss > ALLOWANCE * (1 + 1e-9) or bool((losses[list(barred)] <= MARGIN).any())
            asked = after.rounds_played if plan.asks else asked
        found.broken += broken
        found.barred.append(len(barred))
        found.rounds.append(asked)
    return found


@contextmanager
def narrow_bounds() -> Iterator[None]:
    """Plant an error: bounds on losses of a fiftieth of their width."""
    right = LossBounds.narrow

    def wrong(self: LossBounds, places: Any, estimates: Any, widths: Any) -> None:
        right(self, places, estimates, PLANTED * widths)

    with mock.patch.object(LossBounds, "narrow", wrong):
        yield


def main() -> int:
    """Print one row per trust model and objective, and the planted error; return 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    studies, failed = options.studies, 0
    most = int(binom.isf(1e-3, studies, 1 - CONFIDENCE))
    print(f"confidence {CONFIDENCE:g}, {studies} studies; broken at most {most / studies:.1%}")
    heads = f"{'broken':>8}{'first':>8}{'later':>8}{'without':>9}{'barred':>8}{'rounds':>18}"
    print(f"{'trust':<20}{'objective':<16}{heads}")
    for trust, privacy in TRUSTS.items():
        for objective in ("regret", "identification"):
            study = study_of(privacy, objective)
            found = run(study, studies, options.seed)
            without = run(study, studies, options.seed, guarded=False)
            bad = found.broken > most or found.played_again or found.first > ALLOWANCE
            failed += bool(bad)
            rounds = f"{np.mean(found.rounds):,.0f} ({np.mean(without.rounds):,.0f})"
            print(
                f"{trust:<20}{objective:<16}{found.broken / studies:>8.1%}{found.first:>8.3f}"
                f"{found.later:>8.3f}{max(without.first, without.later):>9.3f}{np.mean(found.barred):>8.1f}"
                f"{rounds:>18}"
                f"{'  FAILED' if bad else ''}",
                flush=True,
            )
    with narrow_bounds():
        planted = run(study_of(TRUSTS["none"], "regret"), studies, options.seed)
    failed += planted.broken <= most
    verdict = "rejected" if planted.broken > most else "NOT REJECTED"
    print(f"planted error: broken {planted.broken / studies:.1%}, {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
