"""`dpbandits shuffler`: run the shuffler of a study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpbandits.cli._parser import DefaultsInHelp
from dpbandits.cli._serve import LEVELS
from dpbandits.cli._service_extra import require_service


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "shuffler",
        help=summary,
        description="Run the shuffler that CONFIG.toml describes until the process is stopped. It has its "
        "own storage and keys, and an operator that does not collude with the coordinator's.",
        formatter_class=DefaultsInHelp,
    )
    parser.set_defaults(run=run)
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="see docs/deploying.md")
    parser.add_argument(
        "--log-level", choices=LEVELS, default="INFO", help="level of the log on standard error"
    )


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
