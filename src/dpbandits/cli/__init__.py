"""The command line, with one file per command. `dpbandits plan` imports _plan.py and no other command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from dpbandits import __version__
from dpbandits.cli._parser import DefaultsInHelp, OneLineParser
from dpbandits.errors import DpbanditsError

COMMANDS = {
    "simulate": "compare trust models on simulated populations",
    "reproduce": "run the paper's figures and tables again",
    "plan": "predict what a study will cost",
    "account": "compute the privacy that a mechanism guarantees",
    "audit": "try to refute a privacy claim by experiment",
    "design": "compute a near-G-optimal design for the rows of a file",
    "cover": "replace a continuous action set by a finite one",
    "demo": "run a whole study on this machine, with its dashboard",
    "serve": "run the coordinator of a study",
    "doctor": "check the machine and the files of a study, before it starts and while it runs",
    "results": "show the best option of a deployed study, with intervals",
    "study": "list, show, pause, resume, close or export deployed studies",
    "report": "write a report of a deployed study that anybody can verify",
    "verify": "verify the report of a study by replaying it",
    "shuffler": "run the shuffler of a study",
    "client": "take part in a study",
    "actuator": "play the actions that a study schedules",
    "federate": "run a study over sites with many users each, on Flower",
    "terms": "write and sign the terms of a study",
    "keys": "make keys, tokens, certificates and enrolment codes",
}


def _parser(arguments: Sequence[str]) -> OneLineParser:
    """The parser with the options of the command in `arguments`, and only the names of the other commands."""
    parser = OneLineParser(
        prog="dpbandits",
        description="Learn the action that is best for a whole population, without learning about any "
        "one of its members.",
    )
    parser.add_argument("--version", action="version", version=f"dpbandits {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    chosen = arguments[0] if arguments else None
    for name, summary in COMMANDS.items():
        own = commands.add_parser(name, help=summary, formatter_class=DefaultsInHelp)
        if name == chosen:
            command = import_module(f"dpbandits.cli._{name}")
            own.description = command.DESCRIPTION
            own.set_defaults(run=command.run)
            command.add_options(own)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: The words after `dpbandits`. None takes those of the process.

    Returns:
        The exit status. It is 2 after bad input, with one line on standard error that names the value.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "_ARGCOMPLETE" in os.environ:  # the shell asks how a command may go on
        from argcomplete import autocomplete

        autocomplete(_parser(os.environ.get("COMP_LINE", "").split()[1:]))
    options = _parser(words).parse_args(words)
    try:
        return int(options.run(options))
    except DpbanditsError as error:
        print(f"dpbandits {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output, for example `head`, closed the pipe
        sys.stderr.close()
        return 0
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"dpbandits {options.command}: {where}{error.strerror}", file=sys.stderr)
        return 2


__all__ = ["main"]
