"""The actuator: it plays the coordinator's schedule and reports how many rounds it has played.

Reporting the same number of rounds again changes nothing, so every call may be retried.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from dpbandits.service.shared import Transport, call
from dpbandits.service.wire import PlayReply, RoundsRequest, ScheduleReply

Play = Callable[[int, int], None]
"""A function `play(action, rounds)` that plays one action for this number of consecutive rounds."""


class Actuator:
    """A synchronous client of the coordinator for the actuator role.

    Every method raises `Unreachable` if the coordinator does not respond, and `Refused` if it refuses the
    request.

    Args:
        url: The coordinator's URL.
        token: The actuator's token.
        transport: Sends the requests.

    Attributes:
        labels: The names of the actions that were scheduled so far, by index; empty if actions have no names.
        phase: The phase of the last schedule, for announcements to clients.
        attempt: The attempt of the last schedule.

    Example:
        >>> from dpbandits.service.actuator import Actuator
        >>> from dpbandits.service.shared import Transport
        >>> with Transport() as transport:
        ...     actuator = Actuator("https://study.example", "the actuator's token", transport)
        ...     print(actuator.phase, actuator.labels)
        0 {}
    """

    def __init__(self, url: str, token: str, transport: Transport) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._transport = transport
        self.labels: dict[int, str] = {}
        self.phase = self.attempt = 0

    def play(self) -> PlayReply:
        """Return the action of the next round."""
        return self._transport.hold(call("GET", f"{self._url}/v1/play", PlayReply, secret=self._token))

    def schedule(self) -> ScheduleReply:
        """Return the schedule of the running phase."""
        found: ScheduleReply = self._transport.hold(
            call("GET", f"{self._url}/v1/schedule", ScheduleReply, secret=self._token)
        )
        self.phase, self.attempt = found.phase, found.attempt
        self.labels |= {run.action: run.label for run in found.runs if run.label}
        return found

    def played(self, phase: int, attempt: int, rounds: int) -> ScheduleReply:
        """Report how many rounds of an attempt have been played so far; repeating it changes nothing.

        Args:
            phase: The phase, from `ScheduleReply.phase`.
            attempt: The attempt, from `ScheduleReply.attempt`.
            rounds: The total number of rounds played in this attempt.

        Returns:
            The schedule, with the new number of played rounds.

        Raises:
            Refused: The attempt is not being played, or the plan has fewer rounds.
        """
        request = RoundsRequest(phase=phase, attempt=attempt, played=rounds)
        url = f"{self._url}/v1/rounds"
        return self._transport.hold(call("POST", url, ScheduleReply, secret=self._token, body=request))


def play_all(
    actuator: Actuator,
    play: Play,
    *,
    pause: float = 0.2,
    patience: int = 1_000_000,
    report_every: float = 1.0,
) -> None:
    """Play every phase until the study ends, or until `patience` runs out.

    After a restart, playing continues at the last round that was reported to the coordinator. Rounds that
    were played but not reported are played again.

    Args:
        actuator: The connection to the coordinator.
        play: Plays one action for a number of consecutive rounds: `play(action, rounds)`.
        pause: Seconds between two requests while nothing is to be played.
        patience: The largest number of requests for a schedule.
        report_every: The least number of seconds between two reports of played rounds. A report is sent at
            the end of a run only, and always at the end of a phase.

    Raises:
        Refused: The coordinator refused a request.
        Unreachable: The coordinator did not respond at every try.

    Example:
        >>> from dpbandits.service.actuator import Actuator, play_all
        >>> from dpbandits.service.shared import Transport
        >>> with Transport() as transport:
        ...     actuator = Actuator("https://study.example", "the actuator's token", transport)
        ...     play_all(actuator, lambda action, rounds: print(action, rounds), patience=0)
    """
    for _ in range(patience):
        schedule = actuator.schedule()
        if schedule.state == "ended":
            return
        if schedule.state == "playing" and schedule.played < schedule.rounds:
            _play_phase(actuator, schedule, play, report_every)
        else:
            time.sleep(pause)


def _play_phase(actuator: Actuator, schedule: ScheduleReply, play: Play, report_every: float) -> None:
    played, reported = 0, time.monotonic()
    for run in schedule.runs:
        left = min(run.plays, played + run.plays - schedule.played)
        played += run.plays
        if left > 0:
            play(run.action, left)
            if played == schedule.rounds or time.monotonic() - reported >= report_every:
                if actuator.played(schedule.phase, schedule.attempt, played).state in ("paused", "ended"):
                    return
                reported = time.monotonic()
