"""Prints the digests of all plans of seeded studies, one study per line, for test_processors.py.

The means of the releases are drawn from the number of the study, so they do not depend on the processor.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator

import numpy as np

from dpbandits.actions import Actions
from dpbandits.options import Kernel, Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Plan, Release, Schedule, Study, ask, tell

TRUSTS = ("central", "local", "shuffle", "none")


def actions(number: int) -> Actions:
    """Return random actions or, for most studies, symmetric ones, among which leverages tie."""
    rng = np.random.default_rng(number)
    kind, size = number % 8, number // 8
    if kind == 1:  # all corners of a cube
        return Actions(np.array(list(itertools.product((-0.4, 0.4), repeat=2 + size % 4))))
    if kind == 2:  # points of a circle
        angles = 2 * np.pi * np.arange(8 + size % 9) / (8 + size % 9)
        return Actions(np.round(0.9 * np.stack([np.cos(angles), np.sin(angles)], axis=1), 6))
    if kind == 3:  # three levels of each factor, with an intercept
        levels = itertools.product((-1, 0, 1), repeat=2 + size % 3)
        return Actions(np.array([(1, *row) for row in levels]) / 3)
    if kind == 4:  # two categories, each coded with one column per value
        one, other = np.eye(3 + size % 4), np.eye(4)
        return Actions(np.array([np.concatenate(pair) for pair in itertools.product(one, other)]) / 2)
    if kind == 5:  # pairs of items
        pairs = [one + other for one, other in itertools.combinations(np.eye(4 + size % 4), 2)]
        return Actions(np.array(pairs) / 2)
    if kind == 6:  # a response surface: intercept, factors, squares and products
        rows = [(1, x, y, x * x, y * y, x * y) for x, y in itertools.product((-1, -0.5, 0, 0.5, 1), repeat=2)]
        return Actions(np.array(rows) / 3)
    if kind == 7:  # columns of a kernel on a grid, whose scales differ by a factor of a hundred
        kernel = Kernel(shape=("rbf", "matern")[size % 2], rank=6 + size % 4)
        return Options.grid(price=list(range(9 + size)), level=[1, 2, 3], kernel=kernel).actions
    dimension, count = int(rng.integers(2, 13)), int(rng.integers(20, 301))
    drawn = Actions.generate("sphere" if size % 2 else "ball", count=count, dimension=dimension, rng=number)
    return Actions(np.round(0.99 * drawn.matrix, 6))  # rounded: norms differ between processors


def study(number: int) -> Study:
    """Return the study with this number."""
    trust = TRUSTS[(number + number // 8) % len(TRUSTS)]
    private = {} if trust == "none" else {"epsilon": 4.0, "delta": 1e-5}
    return Study(
        actions=actions(number),
        horizon=200_000,
        privacy=PrivacyRequest(trust=trust, **private),
        schedule=Schedule(cohorts=(400, 800, 1600), first_length=60, growth=4),
        heterogeneity=(0.0, 0.1, 0.3)[number % 3],
    )


def digests(number: int) -> Iterator[str]:
    """Yield the digest of each plan of a study, up to the fourth phase."""
    state = study(number).begin()
    for _ in range(4):
        plan = ask(state)
        yield plan.digest[:12]
        if not plan.asks:
            return
        state = tell(state, plan, _release(plan, number))


def _release(plan: Plan, number: int) -> Release:
    """Return a release with random means."""
    rng = np.random.default_rng([number, plan.phase])
    means = tuple(float(mean) for mean in np.round(rng.uniform(-0.4, 0.4, plan.numbers), 6))
    return Release(plan=plan.digest, means=means, reports=plan.cohort, simulated=True)


if __name__ == "__main__":
    for one in range(int(sys.argv[1]), int(sys.argv[2])):
        print(one, *digests(one), flush=True)
