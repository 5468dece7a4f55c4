"""Whole studies of real processes over loopback TLS, for every trust model and both shuffler modes.

Each must end with the eliminations of the protocol in one loop, fed with the same rewards and noise. Run with
`make deployed`; the size is an option.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.service.helpers import MODELS
from tests.service.processes import Site
from tests.service.studies import check_study, run_study


def main() -> None:
    """One study after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--processes", type=int, default=4)
    options = parser.parse_args()
    cohorts = (options.clients // 4, options.clients // 3)
    for trust, mode in MODELS:
        with tempfile.TemporaryDirectory() as directory:
            site = Site(
                directory=Path(directory),
                trust=trust,
                mode=mode,
                cohorts=cohorts,
                report_seconds=600 if mode is None else 60,
                join_seconds=120,
                poll_seconds=5,
            )
            began = time.monotonic()
            results, reported = run_study(site, options.clients, processes=options.processes, seconds=1200)
            check_study(site, results, reported)
            took = time.monotonic() - began
            print(
                f"{trust}{'' if mode is None else ', ' + mode}: {options.clients} clients, "
                f"{len(reported)} reports, {len(results['active'])} of {site.actions.count} actions left, "
                f"as expected; {took:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
