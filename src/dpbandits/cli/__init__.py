"""The command line: one file per command. A command's module is imported only when that command runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from dpbandits.cli._parser import OneLineParser
from dpbandits.errors import DpbanditsError

COMMANDS = {
    "simulate": "run the trust models on simulated populations",
    "reproduce": "run the paper's figures and tables again",
    "plan": "predict what a study will cost",
    "account": "compute what a mechanism really guarantees",
    "audit": "try to refute a privacy claim by experiment",
    "design": "compute a near-G-optimal design for the rows of a file",
    "cover": "make a finite action set for a continuous one",
    "serve": "run the coordinator of a study",
    "shuffler": "run the third party of the shuffle model",
    "client": "take part in a study",
    "actuator": "play what a study asks for",
    "terms": "write and sign the terms of a study",
    "keys": "make keys, tokens, certificates and enrolment codes",
}


def _parser(arguments: Sequence[str]) -> OneLineParser:
    """The parser with the options of the command that `arguments` name, and the names of all others."""
    parser = OneLineParser(
        prog="dpbandits",
        description="Learn the action that is best for a whole population, without learning about any "
        "one of its members.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = arguments[0] if arguments else None
    for name, summary in COMMANDS.items():
        if name == chosen:
            import_module(f"dpbandits.cli._{name}").add_to(commands, summary)
        else:
            commands.add_parser(name, help=summary)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after `dpbandits`; those of the process if None.

    Returns:
        The exit status: 2 after bad input, with one line on standard error that names it.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    options = _parser(words).parse_args(words)
    try:
        return int(options.run(options))
    except DpbanditsError as error:
        print(f"dpbandits {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has closed the pipe
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"dpbandits {options.command}: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2


__all__ = ["main"]
