"""The operator pauses, resumes and closes a study: what each party may still do, also after a restart."""

from __future__ import annotations

from typing import Any

import pytest

from dpbandits.errors import Refused
from dpbandits.rounds import give_order
from dpbandits.service.coordinator import read_history
from dpbandits.service.reporting import report_page, verify

from .helpers import Deployment, small_study


def _deployed(mode: str | None = None) -> Deployment:
    deployed = Deployment(small_study("none" if mode is None else "shuffle"), mode)
    deployed.advance()
    return deployed


def _order(deployed: Deployment, order: str) -> Any:
    reply = deployed.run(lambda t: deployed.coordinator.operator.order(t, order))
    deployed.advance()
    return reply


def _status(deployed: Deployment) -> Any:
    return deployed.run(deployed.coordinator.operator.status)


def _schedule(deployed: Deployment) -> Any:
    return deployed.run(deployed.coordinator.actuator.schedule)


def test_nobody_joins_and_nothing_is_played_while_a_study_is_paused() -> None:
    deployed = _deployed()
    members = deployed.enrolled(6)
    assert deployed.task(members[0]).state == "joined"
    reply = _order(deployed, "pause")
    assert (reply.standing, reply.state, reply.joined) == ("paused", "gathering", 1)
    assert "paused" in reply.waiting
    assert deployed.task(members[1]).state == "wait"
    assert _status(deployed).joined == 1
    deployed.start()  # the order holds after a restart
    assert deployed.task(members[1]).state == "wait"
    assert _order(deployed, "resume").standing == "running"
    for member in members[1:]:
        assert deployed.task(member).state == "joined"
    deployed.advance()
    assert _schedule(deployed).state == "playing"
    _order(deployed, "pause")
    assert _schedule(deployed).state == "paused"
    assert deployed.run(deployed.coordinator.actuator.play).action is None


def test_clients_that_joined_may_report_during_a_pause_and_the_release_waits_for_its_end() -> None:
    deployed = _deployed()
    members = deployed.join(6)
    deployed.play()
    _order(deployed, "pause")
    deployed.report(members)
    status = _status(deployed)
    assert (status.reports, status.releases, status.state) == (6, 0, "collecting")
    deployed.clock.time += 1000
    deployed.advance()
    assert _status(deployed).releases == 0
    _order(deployed, "resume")
    status = _status(deployed)
    assert (status.releases, status.phase, status.state) == (1, 2, "gathering")


def test_no_phase_is_planned_between_a_pause_and_a_step_that_had_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    deployed = Deployment(small_study("none"), None)
    machine = deployed.coordinator.rounds
    taken = machine._add

    def late(*arguments: Any) -> bool:
        deployed.run(lambda t: give_order(t, "pause", 0.0))
        return taken(*arguments)

    monkeypatch.setattr(machine, "_add", late)
    deployed.advance()
    assert deployed.run(lambda t: (t.plans(), t.attempts())) == ((), ())


@pytest.mark.parametrize("playing", [False, True])
def test_closing_before_reports_are_due_ends_the_study_without_a_release(playing: bool) -> None:
    deployed = _deployed()
    members = deployed.join(6) if playing else deployed.enrolled(2)
    if not playing:
        deployed.task(members[0])
    phase = _schedule(deployed)
    _order(deployed, "close")
    status = _status(deployed)
    assert (status.standing, status.state, status.releases) == ("closed", "ended", 0)
    assert deployed.task(members[0]).state == "over"
    assert deployed.task(deployed.enrolled(1)[0]).state == "ended"
    assert _schedule(deployed).state == "ended"
    late = deployed.run(lambda t: deployed.coordinator.actuator.rounds(t, phase.phase, phase.attempt, 3))
    assert late.state == "ended"  # an actuator in the middle of a phase gets no error
    for order in ("pause", "resume"):
        with pytest.raises(Refused, match="final"):
            _order(deployed, order)
    assert _order(deployed, "close").standing == "closed"
    deployed.start()
    deployed.advance()
    assert len(deployed.run(lambda t: t.attempts())) == 1


@pytest.mark.parametrize("mode", [None, "split"])
def test_closing_while_reports_are_collected_releases_them_and_asks_nobody_else(mode: str | None) -> None:
    deployed = _deployed(mode)
    members = deployed.join(6)
    deployed.play()
    assert "ends after phase 1" in _order(deployed, "close").waiting
    assert deployed.task(members[0]).state == "report"
    deployed.report(members)
    status = _status(deployed)
    assert (status.state, status.releases, status.phase) == ("ended", 1, 1)
    assert len(deployed.run(lambda t: t.progress())) == 1  # it was learnt, too
    if mode is None:
        history = read_history(deployed.study.without_terms, None, deployed.store)
        page = report_page(history, None, deployed.keys)
        assert verify(page.encode()).accepted
        assert "was closed by its operator" in page
