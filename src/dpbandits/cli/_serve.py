"""`dpbandits serve`: the coordinator of a study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpbandits.cli._parser import DefaultsInHelp
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue
from dpbandits.privacy import require_secure

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "serve",
        help=summary,
        description="Run the coordinator of the study in STUDY.toml until the process is stopped. With "
        "--example: run a whole small study with simulated clients, from start to end.",
        formatter_class=DefaultsInHelp,
    )
    parser.set_defaults(run=run)
    parser.add_argument("study", metavar="STUDY.toml", nargs="?", type=Path, help="see docs/deploying.md")
    parser.add_argument(
        "--example", action="store_true", help="run a small study with simulated clients; needs no file"
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, default="INFO", help="level of the log on standard error"
    )


def run(options: argparse.Namespace) -> int:
    """Serve the study of a file, or run the example."""
    require_service()
    if options.example == (options.study is not None):
        raise InvalidValue("STUDY.toml", options.study, "either a study file or --example")
    if options.example:
        from dpbandits.cli._serve_example import show_example

        return show_example()
    from dpbandits.service.config import read_study
    from dpbandits.service.coordinator import coordinator_app
    from dpbandits.service.shared import configure_logs, serve

    configure_logs(level=options.log_level)
    file = read_study(options.study)
    require_secure(file.context.noise)
    serve(coordinator_app(file.coordinator(), file.roles, file.limits), file.listening)
    return 0
