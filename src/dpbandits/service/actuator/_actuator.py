"""The actuator's part: play what the coordinator asks for, and tell how far it is, as often as one likes."""

from __future__ import annotations

import time
from collections.abc import Callable

from dpbandits.service.shared import Transport, call
from dpbandits.service.wire import PlayReply, RoundsRequest, ScheduleReply

Play = Callable[[int, int], None]
"""Play an action for so many rounds in a row."""


class Actuator:
    """A synchronous client for whoever plays."""

    def __init__(self, url: str, token: str, transport: Transport) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._transport = transport

    def play(self) -> PlayReply:
        """The action of the next round."""
        return self._transport.hold(call("GET", f"{self._url}/v1/play", PlayReply, secret=self._token))

    def schedule(self) -> ScheduleReply:
        """What the whole phase plays."""
        return self._transport.hold(
            call("GET", f"{self._url}/v1/schedule", ScheduleReply, secret=self._token)
        )

    def played(self, phase: int, attempt: int, rounds: int) -> ScheduleReply:
        """So many rounds of this attempt were played in all."""
        request = RoundsRequest(phase=phase, attempt=attempt, played=rounds)
        url = f"{self._url}/v1/rounds"
        return self._transport.hold(call("POST", url, ScheduleReply, secret=self._token, body=request))


def play_all(actuator: Actuator, play: Play, *, pause: float = 0.2, patience: int = 1_000_000) -> None:
    """Play until the study ends; after a restart it goes on where the coordinator was told it is."""
    for _ in range(patience):
        schedule = actuator.schedule()
        if schedule.state == "ended":
            return
        if schedule.state == "playing" and schedule.played < schedule.rounds:
            _play_phase(actuator, schedule, play)
        else:
            time.sleep(pause)


def _play_phase(actuator: Actuator, schedule: ScheduleReply, play: Play) -> None:
    played = 0
    for run in schedule.runs:
        left = min(run.plays, played + run.plays - schedule.played)
        played += run.plays
        if left > 0:
            play(run.action, left)
            actuator.played(schedule.phase, schedule.attempt, played)
