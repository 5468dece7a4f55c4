"""Running a study in real processes to its end, and comparing it with the protocol in one loop."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from typing import Any

from .helpers import expected_course
from .processes import Site

SEED = 5
Process = subprocess.Popen[bytes]


def run_study(
    site: Site, clients: int, *, processes: int = 1, seconds: float = 120, liars: int = 0
) -> tuple[Any, list[Any]]:
    """The results, and which honest clients reported in which attempt of which phase."""
    assert clients >= sum(site.cohorts), f"{clients} clients are too few for cohorts of {site.cohorts}"
    with contextlib.ExitStack() as running:
        if site.mode is not None:
            running.enter_context(site.running("shuffler", site.shuffler()))
        running.enter_context(site.running("coordinator", site.seeded_coordinator(SEED)))
        site.wait_ready(site.url)
        codes, outs = site.codes(clients), list[Any]()
        actuator = running.enter_context(site.running("actuator", site.actuator()))
        started = list[Any]()
        for number in range(processes):
            command, out = site.clients(codes[number::processes], f"clients-{number}", 0 if number else liars)
            started.append(running.enter_context(site.running(f"clients-{number}", command)))
            outs.append(out)
        _wait_for_the_end(site, started, actuator, seconds)
        results = site.ask("GET", "/v1/results")
        results["excluded"] = site.ask("GET", "/v1/status")["excluded"]
    return results, [tuple(row) for out in outs for row in json.loads(out.read_text())]


def _wait_for_the_end(site: Site, clients: list[Process], actuator: Process, seconds: float) -> None:
    """Wait for the end of the study, or fail with what it waits for.

    Once the clients have ended, the study can still play, but no cohort can gather.
    """
    until = time.monotonic() + seconds
    while (status := site.ask("GET", "/v1/status"))["state"] != "ended" or actuator.poll() is None:
        gone = [client.poll() for client in clients]
        assert all(code in (None, 0) for code in gone), f"clients ended with {gone}; {_standing(status)}"
        assert actuator.poll() in (None, 0), f"the actuator failed; {_standing(status)}"
        spent = None not in gone and status["state"] == "gathering"
        assert not spent, f"all clients are spent: enrol more; {_standing(status)}"
        assert time.monotonic() < until, f"no end after {seconds:.0f} s; {_standing(status)}"
        time.sleep(0.5)
    for client in clients:
        assert client.wait(60) == 0
    assert actuator.returncode == 0


def _standing(status: dict[str, Any]) -> str:
    return (
        f"phase {status['phase']}, attempt {status['attempt']} is {status['state']} with "
        f"{status['joined']} of {status['cohort']} clients joined, "
        f"{status['failed_attempts']} attempts failed"
    )


def check_study(site: Site, results: Any, reported: list[Any]) -> None:
    """Assert the same eliminations and estimates, and that every accepted report is in its release."""
    by_phase = {
        found["phase"]: [name for p, a, name in reported if (p, a) == (found["phase"], found["attempt"])]
        for found in results["phases"]
    }
    assert sorted(by_phase) == list(range(1, len(site.cohorts) + 1))
    for found in results["phases"]:
        assert found["release"]["reports"] == len(by_phase[found["phase"]])
    expected = expected_course(site.study, by_phase, SEED)
    assert results["active"] == expected[-1].active_actions.tolist()
    assert results["estimate"] == list(expected[-1].estimate or ())
    assert len(results["active"]) < site.study.actions.count
