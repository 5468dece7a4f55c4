"""A real server process ends cleanly on a signal."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from .processes import Site


@pytest.mark.parametrize("name", ["coordinator", "shuffler"])
def test_a_party_that_is_told_to_end_closes_its_store_and_says_so(name: str, tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(5,))
    command, url, store = {
        "coordinator": (site.coordinator(), site.url, "study.sqlite"),
        "shuffler": (site.shuffler(), site.shuffler_url, "shuffler.sqlite"),
    }[name]
    with site.running(name, command) as process:
        site.wait_ready(url)
        assert (tmp_path / f"{store}-wal").exists()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    lines = [json.loads(line) for line in (tmp_path / f"{name}.log").read_text().splitlines()]
    assert lines[-1]["event"] == "ended"
    assert not (tmp_path / f"{store}-wal").exists()
