"""`dpbandits report`: one HTML file about a study, which anybody can verify."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dpbandits.cli._parser import add_flag, add_value
from dpbandits.cli._service_extra import require_service
from dpbandits.cli._writing import check_folder
from dpbandits.errors import InvalidValue

if TYPE_CHECKING:
    from dpbandits.service.config import CoordinatorFile
    from dpbandits.service.wire import StatementReply

DESCRIPTION = (
    "Write a report of the study in STUDY.toml: question, answer, guarantee, who saw what, plans, "
    "mechanisms, releases and counts. The report is one HTML file without scripts. It contains the "
    "machine-readable record, which the coordinator signs. In the shuffle model, the record includes a "
    "statement that the shuffler signs. `dpbandits verify` replays the record. The command only reads the "
    "store, so it also works while the coordinator runs."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("study", metavar="STUDY.toml", type=Path, help="study file, see docs/deploying.md")
    add_value(parser, "--out", Path, "FILE.html", "the file to write", required=True)
    add_flag(parser, "--scrubbed", "leave out names of options and features, addresses and the date")
    told = (
        "statement that `dpbandits shuffler CONFIG.toml --statement FILE` wrote (default: ask the shuffler)"
    )
    add_value(parser, "--statement", Path, "FILE", told)


def run(options: argparse.Namespace) -> int:
    """Make the report from the store, verify it, and write it."""
    require_service()
    check_folder(out=options.out)
    from dpbandits.service.config import read_stored_study, read_study
    from dpbandits.service.reporting import report_page

    file = read_study(options.study)
    statement = _statement(file, options.statement)
    page = report_page(
        read_stored_study(options.study).history(),
        file.context.options,
        file.context.keys,
        written=datetime.now(UTC).strftime("%Y-%m-%d"),
        statement=statement,
        scrubbed=options.scrubbed,
    )
    options.out.write_text(page, encoding="utf-8", newline="")
    print(f"{options.out}: verified, {len(page.encode()):,} bytes")
    return 0


def _statement(file: CoordinatorFile, path: Path | None) -> StatementReply | None:
    import msgspec

    from dpbandits.service.wire import StatementReply

    if file.link is None:
        if path is not None:
            raise InvalidValue("statement", path, "none: this study has no shuffler")
        return None
    if path is None:
        return file.link.statement()
    try:
        return msgspec.json.decode(path.read_bytes(), type=StatementReply)
    except (OSError, msgspec.DecodeError):
        raise InvalidValue("statement", path, "a file that `dpbandits shuffler --statement` wrote") from None
