"""`dpbandits verify`: replay the study of a report, and say what was verified and what was not."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from dpbandits.cli._parser import add_value
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue

if TYPE_CHECKING:
    from dpbandits.service.reporting import Keys

DESCRIPTION = (
    "Verify a report that `dpbandits report` wrote: replay the study from its releases with the same "
    "code, and compare every plan, guarantee and count, and the answer. The exit status is 0 if everything "
    "matches, and 1 otherwise."
)
_NAMES = ("coordinator", "shuffler", "terms")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("report", metavar="FILE.html", type=Path, help="the report")
    keys = "public keys that you know from another source: coordinator=HEX shuffler=HEX terms=HEX"
    parser.add_argument("--keys", nargs="+", metavar="NAME=HEX", default=[], help=keys)
    add_value(parser, "--actions", Path, "FILE", "the action set, if it is too large to be in the report")


def run(options: argparse.Namespace) -> int:
    """Print one line per check."""
    require_service()
    from dpbandits.actions import Actions
    from dpbandits.service.reporting import verify

    actions = None if options.actions is None else Actions.load(options.actions)
    verdict = verify(options.report.read_bytes(), keys=_keys(options.keys), actions=actions)
    for check in verdict.checks:
        print(f"{'ok  ' if check.passed else 'FAIL'}  {check.claim}{': ' if check.why else ''}{check.why}")
    for text in verdict.unverified:
        print(f"  ?   not verified: {text}")
    print(f"{options.report}: {'accepted' if verdict.accepted else 'REJECTED'}")
    return 0 if verdict.accepted else 1


def _keys(given: list[str]) -> Keys:
    from dpbandits.service.reporting import Keys
    from dpbandits.service.wire import VerifyKey

    found = dict[str, VerifyKey]()
    for text in given:
        name, equals, key = text.partition("=")
        if name not in _NAMES or not equals or name in found:
            raise InvalidValue("keys", text, "coordinator=HEX, shuffler=HEX or terms=HEX, each once")
        found[name] = VerifyKey.parse(key)
    return Keys(**found)
