"""A study of real processes survives kills, and the checker detects a lost report."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from .deployed import Deployed, draw_deployed
from .preloaded import Preloaded


@pytest.fixture
def collected() -> Iterator[None]:
    """Free what the test leaves in cycles before another test runs, which would fail by the warnings."""
    yield
    gc.collect()


# A client that vanishes during a handshake with a stopped party leaves its socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("collected")
def test_a_study_of_real_processes_survives_kills(tmp_path: Path) -> None:
    with closing(Preloaded()) as preloaded:
        world = Deployed(draw_deployed(0, 4), tmp_path, preloaded)
        try:
            asyncio.run(world.play())
            assert world.problems == []
            assert world.examine() == []
            assert world.met["coordinator killed"] > 0
            name, report = next(iter(world.accepted.items()))
            world.accepted[name] = replace(report, digest="another")
            assert world.examine() == [f"the accepted report of {name[:8]} is lost"]
        finally:
            world.stop()
