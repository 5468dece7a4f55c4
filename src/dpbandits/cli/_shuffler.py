"""`dpbandits shuffler`: run the shuffler of a study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dpbandits.cli._parser import add_choice, add_value
from dpbandits.cli._serve import LEVELS
from dpbandits.cli._service_extra import require_service

if TYPE_CHECKING:
    from dpbandits.service.shuffler import Shuffler

DESCRIPTION = (
    "Run the shuffler that CONFIG.toml describes until the process is stopped. It has its own storage and "
    "keys, and an operator that does not collude with the coordinator's."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("config", metavar="CONFIG.toml", type=Path, help="see docs/deploying.md")
    told = "write a signed statement of what this shuffler saw, for `dpbandits report`, and exit"
    add_value(parser, "--statement", Path, "FILE", told)
    add_choice(parser, "--log-level", LEVELS, "level of the log on standard error", "INFO")


def run(options: argparse.Namespace) -> int:
    """Serve until the process is stopped."""
    require_service()
    from dpbandits.service.config import read_shuffler
    from dpbandits.service.shared import configure_logs, serve
    from dpbandits.service.shuffler import shuffler_app

    configure_logs(level=options.log_level)
    file = read_shuffler(options.config)
    if options.statement is not None:
        return _write_statement(file.shuffler(), options.statement)
    serve(shuffler_app(file.shuffler(), file.roles, file.limits), file.listening)
    return 0


def _write_statement(shuffler: Shuffler, path: Path) -> int:
    import msgspec

    from dpbandits.service.shuffler import statement

    try:
        told = shuffler.writer.run("read", lambda transaction: statement(shuffler, transaction))
    finally:
        shuffler.close_store()
    path.write_bytes(msgspec.json.encode(told) + b"\n")
    return 0
