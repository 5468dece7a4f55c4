"""`dpbandits terms`: write, sign and print the terms of a study."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dpbandits.cli._parser import add_value
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue

DESCRIPTION = (
    "Write the terms of the study in STUDY.toml, with a new random name for this run: trust model, both "
    "parties' keys and addresses, (ε, δ), cohorts and mechanisms. Then name the file as [terms] file in "
    "STUDY.toml. Clients pin the printed digest, or the key that signed the terms. If STUDY.toml names terms "
    "already, they are printed, and signed if --sign is given."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("study", metavar="STUDY.toml", type=Path, help="see docs/deploying.md")
    add_value(parser, "--sign", Path, "KEY.pem", "key file made by `dpbandits keys signing`")
    add_value(parser, "--out", Path, "FILE", "new file for the terms")


def run(options: argparse.Namespace) -> int:
    """Write the terms and print their digest."""
    require_service()
    import msgspec

    from dpbandits.service.config import read_study, require_cohorts
    from dpbandits.service.wire import SignedTerms, SigningKey, new_run

    context = read_study(options.study).context
    require_cohorts(context.participants)
    key = None if options.sign is None else SigningKey.load(options.sign)
    signed = context.signed or SignedTerms.of(context.terms_for(new_run()))
    if key is not None:
        signed = signed.sign(key)
    if options.out is not None:
        if options.out.exists():
            raise InvalidValue("out", options.out, "a path where there is no file yet")
        options.out.write_bytes(msgspec.json.encode(signed) + b"\n")
    print(msgspec.json.format(signed.terms, indent=2), file=sys.stderr)
    print(signed.digest)
    return 0
