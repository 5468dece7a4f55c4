"""The message of `run_study` for a study that cannot end. The processes are fakes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from .processes import Site
from .studies import run_study

WAIT = [sys.executable, "-c", "import time; time.sleep(60)"]


class Stuck(Site):
    """A study that is gathering again after its first attempt failed."""

    client_program = "pass"

    def seeded_coordinator(self, seed: int) -> list[str]:
        return WAIT

    def actuator(self) -> list[str]:
        return WAIT

    def clients(self, codes: list[str], name: str = "clients", liars: int = 0) -> tuple[list[str], Path]:
        return [sys.executable, "-c", self.client_program], self.directory / name

    def wait_ready(self, url: str, seconds: float = 60) -> None:
        pass

    def codes(self, count: int) -> list[str]:
        return ["code"] * count

    def ask(self, method: str, path: str, **options: Any) -> Any:
        where = {"phase": 1, "attempt": 2, "state": "gathering"}
        return {**where, "joined": 0, "cohort": 6, "failed_attempts": 1}


STANDING = "phase 1, attempt 2 is gathering with 0 of 6 clients joined, 1 attempts failed"


@pytest.mark.parametrize(
    ("program", "seconds", "told"),
    [
        ("pass", 30, f"all clients are spent: enrol more; {STANDING}"),
        ("raise SystemExit(3)", 30, rf"clients ended with \[3\]; {STANDING}"),
        ("import time; time.sleep(60)", 1, f"no end after 1 s; {STANDING}"),
    ],
)
def test_the_error_says_what_an_unfinished_study_waits_for(
    program: str, seconds: float, told: str, tmp_path: Path
) -> None:
    site = Stuck(directory=tmp_path, trust="central", mode=None, cohorts=(6, 10))
    site.client_program = program
    with pytest.raises(AssertionError, match=told):
        run_study(site, 20, seconds=seconds)


def test_too_few_clients_are_an_error_before_anything_starts(tmp_path: Path) -> None:
    site = Stuck(directory=tmp_path, trust="central", mode=None, cohorts=(6, 10))
    with pytest.raises(AssertionError, match=r"15 clients are too few for cohorts of \(6, 10\)"):
        run_study(site, 15)
