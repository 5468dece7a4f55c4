"""The effect of one lying client in a cohort of 1,000 on a release and on the recommended action.

    python benchmarks/one_liar.py [--studies 500]

Each study is played several times with the same rewards and the same noise of all other clients. The versions
differ in one client of the last cohort:

    as it is         the client reports honestly
    extreme data     an honest client with the most extreme rewards, and the noise that it drew
    extreme client   an honest client with the most extreme rewards and noise: what the client's own code
                     sends if its noise is the largest that it does not replace
    liar             the admitted report that favours the second best action most

The exit status is 1 if a liar moves a released mean by more than the printed reach, or if it changes the
recommended action in more studies than the extreme honest client does. In that case receivers would accept
reports that honest clients cannot send.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbandits.actions import Actions
from dpbandits.privacy import Mechanism, Message, PrivacyRequest, SimulatedNoise
from dpbandits.protocol import LinearFit, Plan, Release, Schedule, State, Study, ask, fitted, leader, tell
from dpbandits.world import Instance, Population

FloatArray = NDArray[np.float64]
Payloads = NDArray[np.int64]

COHORT = 1000
MODELS = {"central": "central", "trusted": "shuffle", "local": "local"}
EPSILON = {"central": 1.0, "trusted": 1.0, "local": 10.0}
KINDS = ("extreme data", "extreme client", "liar")


@dataclass
class Played:
    """A study that was played honestly, up to its last cohort."""

    study: Study
    instance: Instance
    before: State
    plan: Plan
    averages: FloatArray
    reports: Payloads
    release: Release
    after: State


def study_of(trust: str, seed: int) -> tuple[Study, Instance]:
    """Return a study of 100 actions in five dimensions, with four cohorts of 1,000."""
    actions = Actions.generate("sphere", count=100, dimension=5, rng=seed)
    study = Study(
        actions=actions,
        horizon=10**5,
        bounded_rewards=False,
        privacy=PrivacyRequest(trust=MODELS[trust], epsilon=EPSILON[trust], delta=1e-6),
        schedule=Schedule(cohorts=(COHORT,) * 4, first_length=100, growth=4),
    )
    return study, Instance.draw(actions, np.random.default_rng([seed, 1]))


def play(trust: str, seed: int) -> Played:
    """Play honestly, to the end of the last cohort's phase."""
    study, instance = study_of(trust, seed)
    population = Population(instance, heterogeneity=study.heterogeneity)
    rng, state = np.random.default_rng([seed, 2]), study.begin()
    while True:
        plan = ask(state)
        averages = population.averages(plan.cohort, plan.support, plan.plays, rng)
        reports = sent(plan, averages, seed)
        release = released(plan, reports, seed)
        after = tell(state, plan, release)
        if not ask(after).asks:
            return Played(study, instance, state, plan, averages, reports, release, after)
        state = after


def sent(plan: Plan, averages: FloatArray, seed: int) -> Payloads:
    """Return the reports of all clients, by R."""
    assert plan.mechanism is not None
    noise = SimulatedNoise(np.random.default_rng([seed, plan.phase, 3]))
    return plan.mechanism.randomize(plan.reported(averages), noise)


def released(plan: Plan, reports: Payloads, seed: int) -> Release:
    """Return the release of S and A, with noise that does not depend on the reports."""
    assert plan.mechanism is not None
    noise = SimulatedNoise(np.random.default_rng([seed, plan.phase, 4]))
    batch = plan.mechanism.shuffle(reports, noise)
    means = plan.mechanism.analyze(batch, len(reports), noise) + plan.centre
    return Release(plan=plan.digest, means=tuple(means.tolist()), reports=len(reports), simulated=True)


def direction(played: Played) -> FloatArray:
    """Return how much each reported number favours the second best action over the recommended one."""
    fit = fitted(played.study, played.after.history[-1])
    scores = played.study.actions.matrix @ played.instance.theta
    chosen = leader(played.after)
    active = [action for action in played.after.active_actions.tolist() if action != chosen]
    others = active or [action for action in range(len(scores)) if action != chosen]
    second = max(others, key=lambda action: scores[action])
    matrix = played.study.actions.matrix
    assert isinstance(fit, LinearFit)
    return np.asarray(fit.map.T @ (matrix[second] - matrix[chosen]))


def farthest(message: Message, towards: FloatArray) -> Payloads:
    """Return the admitted report that is farthest in a direction."""
    if message.kind == "bits":
        ones = (towards > 0)[:, None] & np.ones(message.shape, dtype=bool)
        return ones.astype(np.uint8)
    corner = np.where(towards > 0, message.high, message.low)
    if message.largest_square is None:
        return corner.astype(np.int64)
    unit, length = towards / np.linalg.norm(towards), np.sqrt(message.largest_square) / 2
    while True:
        report = np.rint(message.twice_centre / 2 + length * unit).astype(np.int64)
        if message.admitted(report[None])[0]:
            return report
        length *= 0.9999


def changed(played: Played, kind: str, seed: int) -> tuple[bool, float]:
    """Replace the first client; return whether the recommendation changes, and how far a mean moves."""
    mechanism, towards = played.plan.mechanism, direction(played)
    assert mechanism is not None
    reports = played.reports.copy()
    if kind == "extreme data":
        reports[0] = _honest(played, mechanism, towards, seed)
    elif kind == "extreme client":
        reports[0] = _extreme(mechanism, towards)
    else:
        reports[0] = farthest(mechanism.message, towards)
    release = released(played.plan, reports, seed)
    after = tell(played.before, played.plan, release)
    moved = np.abs(np.array(release.means) - np.array(played.release.means)).max()
    return leader(after) != leader(played.after), float(moved)


def _honest(played: Played, mechanism: Mechanism, towards: FloatArray, seed: int) -> Payloads:
    """Return the first client's report with its own noise and the most extreme data."""
    noise = SimulatedNoise(np.random.default_rng([seed, played.plan.phase, 3]))
    rows = played.plan.reported(played.averages)
    rows[0] = np.sign(towards) * 1e6 if mechanism.shape == "box" else towards * 1e6
    honest: Payloads = mechanism.randomize(rows, noise)[0]
    return honest


class ExtremeNoise(SimulatedNoise):
    """Noise of a given length in a given direction, and coins that fall in that direction."""

    def __init__(self, towards: FloatArray, length: float) -> None:
        super().__init__(np.random.default_rng(0))
        self._towards, self._length = towards, length

    def bernoulli(self, probabilities: FloatArray) -> Payloads:
        """Return coins that fall in the direction wherever they can."""
        return ((probabilities > 0) & ((self._towards > 0) | (probabilities >= 1))).astype(np.int64)

    def binomial(self, trials: int, probability: float, shape: tuple[int, ...]) -> Payloads:  # noqa: ARG002
        """Return all ones or all zeros."""
        return np.broadcast_to(np.where(self._towards > 0, trials, 0), shape).astype(np.int64)

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Payloads:  # noqa: ARG002
        """Return noise of the given length."""
        return np.broadcast_to(np.rint(self._length * self._towards), shape).astype(np.int64)


def _extreme(mechanism: Mechanism, towards: FloatArray) -> Payloads:
    """Return what the client's own code sends for extreme rewards and the largest noise it keeps."""
    unit = np.sign(towards) if mechanism.shape == "box" else towards / np.linalg.norm(towards)
    row = (np.sign(towards) if mechanism.shape == "box" else towards)[None, :] * 1e6

    def report(length: float) -> Payloads:
        made: Payloads = mechanism.randomize(row, ExtremeNoise(unit, length))[0]
        return made

    def along(length: float) -> float:
        made = report(length)
        return float((made.sum(axis=-1) if made.ndim == 2 else made) @ unit)

    low, high, least = 0.0, 1.0, along(0.0)
    while along(high) >= least and high < 1e9:  # a replaced report is at the centre
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if along(middle) >= least else (low, middle)
    return report(low)


def run(trust: str, studies: int, progress: Callable[[int], None]) -> bool:
    """Play all studies of one model, print a row, and return whether both limits hold."""
    changes, moved, factor = dict.fromkeys(KINDS, 0), 0.0, 0.0
    for seed in range(studies):
        played = play(trust, seed)
        assert played.plan.mechanism is not None
        reach = played.plan.mechanism.reach_of_one(COHORT)
        for kind in KINDS:
            changes_it, distance = changed(played, kind, seed)
            changes[kind] += changes_it
        # `distance` is now that of the liar, the last kind.
        moved, factor = max(moved, distance / reach.mean), max(factor, reach.factor)
        progress(seed)
    counts = "  ".join(f"{changes[kind]:>14}" for kind in KINDS)
    print(f"{trust:<8} {EPSILON[trust]:>4g}  {counts}   {moved:>13.3f}   {factor:>6.1f} ×", flush=True)
    return moved <= 1 + 1e-9 and changes["liar"] <= changes["extreme client"]


def main() -> int:
    """Run all three models in which reports are checked."""
    parser = argparse.ArgumentParser(description="One liar in a cohort of 1,000")
    parser.add_argument("--studies", type=int, default=500)
    options = parser.parse_args()
    print(f"{options.studies} studies, cohorts of {COHORT:,}, δ = 1e-6; recommendations that change:")
    print(f"{'mode':<8} {'ε':>4}  {KINDS[0]:>14}  {KINDS[1]:>14}  {KINDS[2]:>14}   moved / reach   reach")

    def progress(seed: int) -> None:
        if sys.stderr.isatty():
            print(f"\r{seed + 1} studies", end="\r", file=sys.stderr)

    held = [run(trust, options.studies, progress) for trust in MODELS]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
