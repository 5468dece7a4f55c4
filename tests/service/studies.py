"""Run a study of real processes to its end and hold it against the protocol in one loop."""

from __future__ import annotations

import contextlib
import json
from typing import Any

from dpbandits.service.study_file import read_study

from .helpers import expected_course
from .processes import Site

SEED = 5


def run_study(site: Site, clients: int, *, processes: int = 1, seconds: float = 120) -> tuple[Any, list[Any]]:
    """The results, and who of the clients reported in which attempt of which phase."""
    with contextlib.ExitStack() as running:
        if site.mode is not None:
            running.enter_context(site.running("shuffler", site.shuffler()))
        running.enter_context(site.running("coordinator", site.seeded_coordinator(SEED)))
        site.wait_ready(site.url)
        codes, outs = site.codes(clients), list[Any]()
        actuator = running.enter_context(site.running("actuator", site.actuator()))
        started = list[Any]()
        for number in range(processes):
            command, out = site.clients(codes[number::processes], f"clients-{number}")
            started.append(running.enter_context(site.running(f"clients-{number}", command)))
            outs.append(out)
        for process in started:
            assert process.wait(seconds) == 0
        assert actuator.wait(60) == 0
        assert site.ask("GET", "/v1/status")["state"] == "ended"
        results = site.ask("GET", "/v1/results")
    return results, [tuple(row) for out in outs for row in json.loads(out.read_text())]


def check_study(site: Site, results: Any, reported: list[Any]) -> None:
    """Same eliminations, same estimates, and every accepted report is in its release."""
    by_phase = {
        found["phase"]: [name for p, a, name in reported if (p, a) == (found["phase"], found["attempt"])]
        for found in results["phases"]
    }
    assert sorted(by_phase) == list(range(1, len(site.cohorts) + 1))
    for found in results["phases"]:
        assert found["release"]["reports"] == len(by_phase[found["phase"]])
    study = read_study(site.study_file).context.study
    expected = expected_course(study, by_phase, SEED)
    assert results["active"] == expected[-1].active_actions.tolist()
    assert results["estimate"] == list(expected[-1].estimate or ())
    assert len(results["active"]) < study.actions.count
