"""Deadlines hold within a process and across a restart, even if the machine's clock is changed."""

from __future__ import annotations

import time

import pytest

from dpbandits.rounds import SteadyClock
from dpbandits.storage import MemoryStore

from .helpers import Deployment, small_study


def test_within_a_process_time_goes_forward_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    before = clock.now()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    after = clock.now()
    assert before <= after < before + 60


@pytest.mark.parametrize("jump", [-86_400.0, 86_400.0])
def test_a_clock_that_was_set_before_a_restart_makes_a_wait_begin_again_at_most(jump: float) -> None:
    store = MemoryStore()
    deployed = Deployment(study=small_study("local", share=0.5), mode=None, store=store)
    deployed.collect(4)
    deployed.coordinator.close()
    deployed.clock.time += jump
    deployed.start()
    deployed.advance()
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.releases == 1) == (jump > 0)  # a jump forward passes the deadline, a jump back does not
    deployed.clock.time += 61
    deployed.advance()
    assert deployed.run(deployed.coordinator.operator.status).releases == 1
    deployed.close()
