"""Real processes over loopback TLS: coordinator, shuffler, actuator and clients, for every trust model.

The study must end with the eliminations that the protocol's functions give in one loop, fed with the same
rewards and the same noise.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from dpbandits.service.study_file import read_study

from .helpers import MODELS, expected_course
from .processes import Site

COHORTS = (60, 90)
CLIENTS = 200  # so many that a failed attempt could be asked again
SEED = 5


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_a_study_of_real_processes_ends_as_the_protocol_alone_does(
    trust: str, mode: str | None, tmp_path: Path
) -> None:
    seconds = 60.0 if mode is None else 8.0
    site = Site(
        directory=tmp_path,
        trust=trust,
        mode=mode,
        cohorts=COHORTS,
        report_seconds=seconds,
        poll_seconds=1.0,
        join_seconds=20,
    )
    with contextlib.ExitStack() as running:
        if mode is not None:
            running.enter_context(site.running("shuffler", site.shuffler()))
        running.enter_context(site.running("coordinator", site.seeded_coordinator(SEED)))
        site.wait_ready(site.url)
        command, out = site.clients(site.codes(CLIENTS))
        actuator = running.enter_context(site.running("actuator", site.actuator()))
        clients = running.enter_context(site.running("clients", command))
        assert clients.wait(120) == 0
        assert actuator.wait(60) == 0
        status, results = site.ask("GET", "/v1/status"), site.ask("GET", "/v1/results")
    assert status["state"] == "ended"
    assert [phase["phase"] for phase in results["phases"]] == [1, 2]
    released = {phase["phase"]: phase["attempt"] for phase in results["phases"]}
    reported = {
        phase: [name for p, a, name in json.loads(out.read_text()) if (p, a) == (phase, attempt)]
        for phase, attempt in released.items()
    }
    assert [len(reported[phase["phase"]]) for phase in results["phases"]] == [
        phase["release"]["reports"] for phase in results["phases"]
    ]
    study = read_study(site.study_file).context.study
    expected = expected_course(study, reported, SEED)
    assert results["active"] == expected[-1].active_actions.tolist()
    assert results["estimate"] == list(expected[-1].estimate or ())
    assert results["active"] != list(range(study.actions.count))
    for phase, state in zip(results["phases"], expected[1:], strict=False):
        assert phase["plan"]["phase"] + 1 == state.phase
