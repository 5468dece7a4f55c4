"""Plans and results on real data.

All results are semi-real: actions, θ* and the differences between users come from the data, and single
rewards are drawn (docs/real-data.md).

The data are the ranking sample that ships with the package, and the cellular measurements if their path is
given, each with every kind of users and in every trust model. The plan predicts, before any client is asked,
whether the study can learn, that is, whether any phase is expected to drop an action. A row is ok if all runs
ended with the best action of the data, or with one whose gap is within the width that the learner stated
last. Rows for which the plan predicts no elimination are shown but not judged.

    python benchmarks/real_data.py [--cellular PATH] [--runs 5] [--workers 2]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from dpbandits.protocol import predict
from dpbandits.simulation import RunTrace, Setting, run_once
from dpbandits.world import SEMI_REAL

PRIVACY = (("none", 1.0), ("central", 1.0), ("shuffle", 1.0), ("local", 10.0), ("local", 1.0))
SIZE = {"horizon": 10**6, "participants": 50_000, "schedule": "budgeted", "delta": 1e-6}
RANKING = {"data": "mslr-sample", "actions": 1000, "dimension": 20}


def settings(cellular: str | None) -> list[Setting]:
    """Return every combination of data set, kind of users and trust model."""
    problems = [{**RANKING, "users": users} for users in ("fitted", "resampled")]
    if cellular is not None:
        data = f"cellular:{cellular}"
        problems += [{"data": data, "users": users} for users in ("fitted", "resampled", "measured")]
    rows = [(problem, trust, epsilon) for problem in problems for trust, epsilon in PRIVACY]
    return [Setting.of(trust=trust, epsilon=epsilon, **problem, **SIZE) for problem, trust, epsilon in rows]


def outcome(setting: Setting, runs: int) -> tuple[int | None, list[RunTrace]]:
    """Return the phase in which the plan expects the first elimination, or None, and the runs."""
    with threadpool_limits(limits=1):
        spending = setting.planned()
        prediction = predict(setting.study(setting.instance(0).actions, spending))
    return prediction.first_elimination, [run_once(setting, seed, spending) for seed in range(runs)]


def line(setting: Setting, planned: int | None, runs: list[RunTrace]) -> tuple[str, bool]:
    """Return one row of the table, and whether it is ok."""
    gaps = np.array([run.final_gap for run in runs])
    widths = np.array([run.width for run in runs])
    best = sum(run.final_gap == 0 for run in runs)
    good = planned is None or bool(np.all((gaps == 0) | (gaps <= widths)))
    privacy = setting.privacy
    asked = "–" if privacy.trust == "none" else f"({privacy.epsilon:g}, {privacy.delta:g})"
    verdict = "not planned to learn" if planned is None else "ok" if good else "MISSED"
    cells = [
        setting.problem.data.partition(":")[0],
        setting.problem.users,
        f"{privacy.trust} {asked}",
        "never" if planned is None else f"phase {planned}",
        f"{best} of {len(runs)}",
        f"{gaps.max():.4f}",
        f"{widths.min():.4f}",
        f"{np.mean([run.regret for run in runs]):,.0f}",
        verdict,
    ]
    return "| " + " | ".join(cells) + " |", good


def describe(setting: Setting) -> str:
    """Return a description of the data set."""
    data = setting.problem.dataset
    modelled = int(np.argmax(data.catalogue @ data.theta))
    text = (
        f"{setting.problem.data.partition(':')[0]}: {len(data.catalogue):,} actions "
        f"in R^{data.catalogue.shape[1]}, "
        f"{len(data.parameters)} users, ‖θ*‖ = {np.linalg.norm(data.theta):.2f}, σ = "
        f"{data.heterogeneity('fitted'):.3f} fitted and {data.heterogeneity('resampled'):.3f} resampled, "
        f"deviation of single rewards {data.noise:.3f}; "
        f"best as modelled: {data.labels[modelled]}"
    )
    if data.measured is None:
        return text
    rewards = data.measured.mean(axis=0)
    left = rewards - data.catalogue @ data.theta
    explained = 1 - np.sum(left**2) / np.sum((rewards - rewards.mean()) ** 2)
    return (
        f"{text}; as measured: {data.labels[int(np.argmax(rewards))]}; the linear model explains "
        f"{explained:.4f} of the variance between actions and misses none by more than {data.misfit:.4f} "
        f"(root mean square {np.sqrt(np.mean(left**2)):.4f})"
    )


def main() -> int:
    """Print the table; return a non-zero status if a row is not ok."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cellular", metavar="PATH", help="the table of cellular measurements, or its folder"
    )
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rows = settings(options.cellular)
    for setting in {row.data: row for row in rows}.values():
        print(describe(setting))
    found = Parallel(n_jobs=options.workers)(delayed(outcome)(row, options.runs) for row in rows)
    print(f"\nAll results are {SEMI_REAL}.\n")
    print(
        "| data | users | trust (ε, δ) | first drop planned | best action | largest gap | width | regret | |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    lines = [line(row, planned, runs) for row, (planned, runs) in zip(rows, found, strict=True)]
    print("\n".join(text for text, _ in lines))
    return int(not all(good for _, good in lines))


if __name__ == "__main__":
    sys.exit(main())
