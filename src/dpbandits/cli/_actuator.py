"""`dpbandits actuator`: the reference actuator, which prints what to play."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from dpbandits._checks import positive
from dpbandits.cli._parser import add_value, number
from dpbandits.cli._service_extra import read_secret, require_service

DESCRIPTION = (
    "Play the actions that the study at URL schedules, until the study ends. Each line on standard output "
    "has the number of an action, its name if it has one, and for how many rounds it is played. The command "
    "reports played rounds to the coordinator about once a second, and at the end of each phase."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("url", metavar="URL", help="address of the coordinator")
    add_value(parser, "--token-file", Path, "FILE", "file with the actuator's token", required=True)
    add_value(parser, "--certificates", Path, "FILE", "certificates to trust for the URL")
    add_value(parser, "--rate", number, "R", "rounds per second (default: no limit)")


def run(options: argparse.Namespace) -> int:
    """Play until the study ends."""
    require_service()
    from dpbandits.service.actuator import Actuator, play_all
    from dpbandits.service.shared import Backoff, Transport

    rate = None if options.rate is None else positive(rate=options.rate)

    def play(action: int, rounds: int) -> None:
        label = actuator.labels.get(action)
        named = "" if label is None else f" ({label})"
        print(f"action {action}{named} for {rounds} rounds", flush=True)
        if rate is not None:
            time.sleep(rounds / rate)

    token = read_secret(options.token_file)
    with Transport(certificates=options.certificates, patience=Backoff(tries=1000)) as transport:
        actuator = Actuator(options.url, token, transport)
        play_all(actuator, play)
    return 0
