"""`dpbandits study`: the deployed studies of this machine, from their files and stores."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbandits.cli._parser import add_choice, add_flag, add_value
from dpbandits.cli._service_extra import require_service
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.errors import DpbanditsError, InvalidValue

if TYPE_CHECKING:
    from dpbandits.service.config import StoredStudy
    from dpbandits.service.coordinator import StudyHistory

DESCRIPTION = (
    "List, show, pause, resume, close or export studies, from their files and stores. The command works "
    "whether or not the coordinator runs. Orders are journalled: a running coordinator obeys within a "
    "second, and a stopped one after its next start."
)
_ORDERS = {
    "pause": "no client joins, and nothing is played or released, until the study is resumed",
    "resume": "continue after a pause",
    "close": "end the study for good; reports that are being collected are still released",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand per task."""
    tasks = parser.add_subparsers(dest="task", metavar="TASK", required=True)
    listing = tasks.add_parser(
        "list", help="list the studies whose files are in some folders (default: this folder)"
    )
    listing.add_argument("folders", metavar="FOLDER", type=Path, nargs="*", default=[Path()])
    show = tasks.add_parser("show", help="show how far a study has come")
    show.add_argument("study", metavar="STUDY.toml", type=Path)
    add_value(show, "--json", str, "PATH", "write the same as JSON; - for standard output")
    for name, text in _ORDERS.items():
        order = tasks.add_parser(name, help=text)
        order.add_argument("study", metavar="STUDY.toml", type=Path)
        if name == "close":
            add_flag(order, "--yes", "required: confirms that the study ends for good")
    export = tasks.add_parser(
        "export", help="write every table: options, effects, phases, plans, releases, attempts"
    )
    export.add_argument("study", metavar="STUDY.toml", type=Path)
    add_value(export, "--out", Path, "FOLDER", "folder for one file per table", required=True)
    add_choice(export, "--format", ("csv", "json"), "format of the files (default: csv)", "csv")


def run(options: argparse.Namespace) -> int:
    """Do the task."""
    require_service()
    tasks = {"list": _list, "show": _show, "export": _export, **dict.fromkeys(_ORDERS, _order)}
    tasks[options.task](options)
    return 0


def _list(options: argparse.Namespace) -> None:
    from rich.table import Table

    from dpbandits.cli._terminal import console

    table = Table(title_justify="left")
    for heading in ("study", "privacy", "standing", "phase", "options left", "clients asked"):
        table.add_column(heading)
    files = sorted(path for folder in options.folders for path in _toml_files(folder))
    for path in files:
        found = _found(path)
        if found is not None:
            table.add_row(str(path), *found)
    console(110).print(table)


def _toml_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise InvalidValue("folder", folder, "an existing folder")
    return list(folder.glob("*.toml"))


def _found(path: Path) -> tuple[str, ...] | None:
    """Return the row of a study in the table; None if the file is not a study file."""
    from dpbandits.service.config import read_stored_study

    try:
        study = read_stored_study(path)
    except DpbanditsError:
        return None
    privacy = study.study.privacy
    request = f"{privacy.trust} ({privacy.epsilon:g}, {privacy.delta:g})"
    try:
        shown = shown_of(study, study.history())
    except DpbanditsError:
        return request, "not begun", "–", f"{study.study.actions.count:,}", "0"
    return (
        request,
        shown["standing"],
        str(shown["phase"]),
        f"{shown['options_left']:,}",
        f"{shown['asked']:,}",
    )


def shown_of(study: StoredStudy, history: StudyHistory) -> dict[str, Any]:
    """Return how far a study has come, as values that can be written as JSON."""
    state, last = history.journalled.state, history.attempts[-1] if history.attempts else None
    return {
        "standing": "ended" if state.ended else history.standing,
        "trust": study.study.privacy.trust,
        "epsilon": study.study.privacy.epsilon,
        "delta": study.study.privacy.delta,
        "phase": 0 if last is None else last.phase,
        "attempt": 0 if last is None else last.number,
        "state": "beginning" if last is None else last.state,
        "releases": len(history.journalled.releases),
        "rounds_played": state.rounds_played,
        "horizon": study.study.horizon,
        "options": study.study.actions.count,
        "options_left": len(state.active_actions),
        "asked": sum(attempt.joined for attempt in history.attempts),
        "failed_attempts": sum(attempt.state == "failed" for attempt in history.attempts),
        "terms": history.signed.digest,
    }


def _show(options: argparse.Namespace) -> None:
    from dpbandits.service.config import read_stored_study

    check_writable(options.json)
    study = read_stored_study(options.study)
    shown = shown_of(study, study.history())
    write_document(shown, options.json)
    if options.json != "-":
        for name, value in shown.items():
            print(f"{name.replace('_', ' '):<16} {f'{value:,}' if type(value) is int else value}")


def _order(options: argparse.Namespace) -> None:
    from dpbandits.service.config import read_stored_study

    if options.task == "close" and not options.yes:
        raise InvalidValue("close", options.study, "--yes as well: a closed study cannot be resumed")
    standing = read_stored_study(options.study).order(options.task)
    print(f"{options.study}: {standing}")


def _export(options: argparse.Namespace) -> None:
    from dpbandits.service.config import read_stored_study
    from dpbandits.service.reporting import tables_of

    study = read_stored_study(options.study)
    options.out.mkdir(parents=True, exist_ok=True)
    for name, rows in tables_of(study.history(), study.options).items():
        path = options.out / f"{name}.{options.format}"
        if options.format == "json":
            write_document(rows, str(path))
            continue
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    print(f"{options.out}: one {options.format} file per table")
