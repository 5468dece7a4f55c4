"""Published private LinUCB against phased elimination, on the same instances, with rewards of ±1.

T = 5·10⁴, d = 20, k = 1000, σ = .1, δ = 10⁻⁶, 50,000 clients. Each client of LinUCB plays one round and
reports that reward. Each client of a phase reports one average per action over the rounds of the phase. The
published form also protects which action a client was offered. Here, actions are public, as they are for
phased elimination, so rows that protect only rewards are the fair comparison.

    python benchmarks/private_peers.py [--runs 3] [--workers 2]
"""

from __future__ import annotations

import argparse

import numpy as np
from joblib import Parallel, delayed

from dpbandits.baselines import Peer, private_linucb
from dpbandits.simulation import Setting, run_once

HORIZON = 50_000
PUBLISHED_BATCH = round(HORIZON**0.6)
PROBLEM = {
    "horizon": HORIZON,
    "participants": HORIZON,
    "rewards": "bernoulli",
    "population": None,
    "delta": 1e-6,
}


def peers() -> list[Peer]:
    """Return both variants, as published and with public actions, at a strict and a loose ε."""
    found = []
    for epsilon in (1.0, 10.0):
        for protects in ("actions and rewards", "rewards"):
            found.append(Peer(trust="local", epsilon=epsilon, delta=1e-6, protects=protects))
            batches = (PUBLISHED_BATCH, 5_000) if epsilon == 1 else ()
            found += [
                Peer(trust="shuffle", epsilon=epsilon, delta=1e-6, batch=batch, protects=protects)
                for batch in batches
            ]
    return found


def ours() -> list[Setting]:
    """Return phased elimination with the same number of clients."""
    rows = [("none", 1.0), ("shuffle", 1.0), ("local", 1.0), ("local", 10.0)]
    return [Setting.of(trust=trust, epsilon=epsilon, **PROBLEM) for trust, epsilon in rows]


def regret(row: Peer | Setting, seed: int) -> float:
    """Return the regret of one run on the instance of this seed."""
    if isinstance(row, Setting):
        return run_once(row, seed).regret
    setting = Setting.of(**PROBLEM)
    clients = setting.people(setting.instance(seed))
    return private_linucb(clients, row, horizon=HORIZON, seed=seed).regret


def cells(row: Peer | Setting) -> list[str]:
    """Return the name of the learner, and its guarantee."""
    if isinstance(row, Setting):
        name = "phased elimination, `tight`"
        if not row.private:
            return [name, "–", "–", "–"]
        return [name, f"({row.privacy.epsilon:g}, 10⁻⁶), {row.privacy.trust}", "rewards", "exact"]
    name = f"LinUCB, {row.trust}" + (f", batches of {row.batch:,}" if row.batch > 1 else "")
    return [name, f"({row.epsilon:g}, 10⁻⁶), {row.trust}", row.protects, row.guarantee.accountant]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3, help="number of instances, at least 2")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows, seeds = [*peers(), *ours()], range(max(2, options.runs))
    tasks = [(row, seed) for row in rows for seed in seeds]
    found = dict(
        zip(tasks, Parallel(n_jobs=options.workers)(delayed(regret)(*t) for t in tasks), strict=True)
    )
    print("| learner | guarantee, one client replaced | protects | by | regret ± s.e. | per round |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        regrets = [found[row, seed] for seed in seeds]
        error = np.std(regrets, ddof=1) / len(regrets) ** 0.5
        shown = [*cells(row), f"{np.mean(regrets):,.0f} ± {error:,.0f}", f"{np.mean(regrets) / HORIZON:.3f}"]
        print("| " + " | ".join(shown) + " |")


if __name__ == "__main__":
    main()
