"""`dpbandits serve`: the coordinator of a study."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpbandits.cli._parser import add_choice, add_flag
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue
from dpbandits.privacy import require_secure

DESCRIPTION = (
    "Run the coordinator of the study in STUDY.toml until the process is stopped. With --example: run a "
    "whole small study with simulated clients, from start to end."
)
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("study", metavar="STUDY.toml", nargs="?", type=Path, help="see docs/deploying.md")
    add_flag(parser, "--example", "run a small study with simulated clients; needs no file")
    add_choice(parser, "--log-level", LEVELS, "level of the log on standard error", "INFO")


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
    coordinator = file.coordinator()
    try:
        coordinator.begin()
    except BaseException:
        coordinator.close()
        raise
    serve(coordinator_app(coordinator, file.roles, file.limits), file.listening)
    return 0
