"""Real processes over loopback TLS: coordinator, shuffler, actuator and clients, for every trust model.

The study must end with the eliminations that the protocol's functions give in one loop, fed with the same
rewards and the same noise. `make deployed` does the same with 2,000 clients in several processes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .helpers import MODELS
from .processes import Site
from .studies import check_study, run_study

COHORTS = (20, 30)
CLIENTS = 66  # enough that a failed attempt could be repeated with new clients


# `make deployed` and `make liars` also run mode `verified`, whose clients take more processor time.
@pytest.mark.parametrize(("trust", "mode"), [pair for pair in MODELS if pair[1] != "verified"])
def test_a_study_of_real_processes_ends_as_the_protocol_alone_does(
    trust: str, mode: str | None, tmp_path: Path, programs: Path
) -> None:
    seconds = 60.0 if mode is None else 8.0
    timing = {"report_seconds": seconds, "poll_seconds": 1.0, "join_seconds": 20.0}
    site = Site(directory=tmp_path, trust=trust, mode=mode, cohorts=COHORTS, programs=programs, **timing)
    check_study(site, *run_study(site, CLIENTS))
