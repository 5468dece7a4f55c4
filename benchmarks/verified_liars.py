"""A study of real processes with lying clients: mode `verified` leaves them out, `split` is misled.

    python benchmarks/verified_liars.py --clients 2000 --liars 20 --mode verified
    python benchmarks/verified_liars.py --clients 2000 --liars 20 --mode split

In mode `verified` each liar sends another kind of false report. The study must end with exactly the
eliminations and the estimate of the honest clients. In mode `split` one of the liars of a phase adds to its
share what makes the worst action look best. The study must end with that action. Mode `verified` exists to
prevent this.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.service.helpers import THETA
from tests.service.processes import CLIENT_NOISE, Site
from tests.service.studies import check_study, run_study


def main() -> None:
    """Run one study."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--liars", type=int, default=20)
    parser.add_argument("--mode", choices=("verified", "split"), default="verified")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--report-seconds", type=float, default=60)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        site = Site(
            directory=Path(directory),
            trust="shuffle",
            mode=options.mode,
            noise=CLIENT_NOISE,
            cohorts=(2 * options.clients // 5, options.clients // 2),
            report_seconds=options.report_seconds,
            join_seconds=120,
            poll_seconds=15,
        )
        began = time.monotonic()
        results, reported = run_study(
            site, options.clients, processes=options.processes, seconds=1200, liars=options.liars
        )
        took = time.monotonic() - began
    values = site.actions.matrix @ THETA
    best, worst = int(np.argmax(values)), int(np.argmin(values))
    counted = sum(phase["release"]["reports"] for phase in results["phases"])
    print(f"{options.clients:,} clients, {options.liars} liars, {took:.0f} s")
    print(f"{len(reported):,} honest reports sent")
    print(f"{counted:,} reports counted, {results['excluded']} excluded")
    print(f"best action {best}, worst {worst}; left at the end: {results['active']}")
    if options.mode == "verified":
        check_study(site, results, reported)
        sys.exit(0 if results["excluded"] and best in results["active"] else 1)
    sys.exit(0 if best not in results["active"] and worst in results["active"] else 1)


if __name__ == "__main__":
    main()
