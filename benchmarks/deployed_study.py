"""Whole studies of real processes over loopback TLS, for every trust model and every shuffler mode.

Each study must end with the same eliminations as the protocol in one loop, with the same rewards and noise.
Run it with `make deployed`; the size is an option. In the shuffle model a collection closes at its deadline
and never earlier. So most of the time there is spent waiting for one deadline per phase: `--report-seconds`.
All clients run on the same machine as the parties, so they poll rarely; their polling is most of the load.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.service.helpers import MODELS
from tests.service.processes import CLIENT_NOISE, Site
from tests.service.studies import check_study, run_study


def main() -> None:
    """Run one study after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--report-seconds", type=float, default=60, help="deadline in the shuffle model")
    parser.add_argument("--only", help="one model, named as in the output: 'central', 'shuffle, split'")
    options = parser.parse_args()
    cohorts = (options.clients // 4, options.clients // 3)
    for trust, mode in MODELS:
        name = trust if mode is None else f"{trust}, {mode}"
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as directory:
            site = Site(
                directory=Path(directory),
                trust=trust,
                mode=mode,
                noise=CLIENT_NOISE if mode == "verified" else None,
                cohorts=cohorts,
                report_seconds=600 if mode is None else options.report_seconds,
                join_seconds=120,
                poll_seconds=15,
            )
            began = time.monotonic()
            results, reported = run_study(site, options.clients, processes=options.processes, seconds=1200)
            check_study(site, results, reported)
            took = time.monotonic() - began
            print(
                f"{name}: {options.clients} clients, "
                f"{len(reported)} reports, {len(results['active'])} of {site.actions.count} actions left, "
                f"as expected; {took:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
