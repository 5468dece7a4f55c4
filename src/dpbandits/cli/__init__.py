"""The command line: one file for each command, and what they share."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from dpbandits.cli import (
    account,
    actuator,
    audit,
    client,
    cover,
    design,
    keys,
    plan,
    reproduce,
    serve,
    shuffler,
    simulate,
    terms,
)
from dpbandits.cli.parser import OneLineParser
from dpbandits.errors import DpbanditsError

COMMANDS = (
    simulate,
    reproduce,
    plan,
    account,
    audit,
    design,
    cover,
    serve,
    shuffler,
    client,
    actuator,
    terms,
    keys,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Bad input ends with status 2 and one line that says what would do."""
    parser = OneLineParser(
        prog="dpbandits",
        description="Learn the action that is best for a whole population, without learning about any "
        "one of its members.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except DpbanditsError as error:
        print(f"dpbandits {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"dpbandits {options.command}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


__all__ = ["main"]
