"""`dpbandits shuffler`: run the shuffler of a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpbandits.cli._parser import add_choice
from dpbandits.cli._serve import LEVELS
from dpbandits.cli._service_extra import require_service

DESCRIPTION = (
    "Run the shuffler that CONFIG.toml describes until the process is stopped. It has its own storage and "
    "keys, and an operator that does not collude with the coordinator's."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="see docs/deploying.md")
    add_choice(parser, "--log-level", LEVELS, "level of the log on standard error", "INFO")


def run(options: argparse.Namespace) -> int:
    """Serve until the process is stopped."""
    require_service()
    from dpbandits.service.config import read_shuffler
    from dpbandits.service.shared import configure_logs, serve
    from dpbandits.service.shuffler import shuffler_app

    configure_logs(level=options.log_level)
    file = read_shuffler(options.config)
    serve(shuffler_app(file.shuffler(), file.roles, file.limits), file.listening)
    return 0
