"""`dpbandits results`: the answer of a deployed study, from its store."""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from dpbandits.cli._parser import add_value, number
from dpbandits.cli._service_extra import require_service
from dpbandits.cli._writing import check_writable, write_document

if TYPE_CHECKING:
    from dpbandits.answers import Answer
    from dpbandits.service.wire import ResultsReply

DESCRIPTION = (
    "Show what the study in STUDY.toml has found so far: the best option by name, its mean reward, its lead "
    "over the runner-up and over the option in use today, each with an interval, and the effect of each "
    "feature. The command only reads the store, so it works whether or not the coordinator runs."
)
_SHOWN = 20  # options in the table; --csv and --json list all that are left, up to 1,000


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("study", metavar="STUDY.toml", type=Path, help="study file, see docs/deploying.md")
    add_value(parser, "--level", number, "P", "probability with which each kind of interval holds", 0.95)
    add_value(parser, "--json", str, "PATH", "write the reply of /v1/results as JSON; - for standard output")
    add_value(parser, "--csv", str, "PATH", "write one row per option that is left; - for standard output")


def run(options: argparse.Namespace) -> int:
    """Read the store, and print or write the results."""
    require_service()
    check_writable(options.json)
    check_writable(options.csv, "csv")
    from dpbandits.service.config import read_stored_study

    found = read_stored_study(options.study).results(level=options.level)
    write_document(found, options.json)
    _write_csv(found.answer, options.csv)
    if "-" not in (options.json, options.csv):
        _show(found)
    return 0


def _write_csv(answer: Answer | None, path: str | None) -> None:
    if path == "-":
        _write_rows(answer, sys.stdout)
    elif path is not None:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            _write_rows(answer, file)


def _write_rows(answer: Answer | None, file: TextIO) -> None:
    from dpbandits.answers import OptionResult

    names = [field.name for field in fields(OptionResult)]
    writer = csv.DictWriter(file, [*names, "recommended"], lineterminator="\n")
    writer.writeheader()
    for one in () if answer is None else answer.options:
        writer.writerow({**asdict(one), "recommended": answer is not None and one.action == answer.action})


def _show(found: ResultsReply) -> None:
    from dpbandits.cli._terminal import console

    show = console(110).print
    for name, text in _lines(found):
        show(f"[bold]{name:<10}[/] {_plain(text)}", soft_wrap=True)
    if found.answer is not None:
        show(_option_table(found.answer, len(found.active)))
        if found.answer.effects:
            show(_effect_table(found.answer))


def _lines(found: ResultsReply) -> list[tuple[str, str]]:
    answer, stated = found.answer, found.guarantee
    lines = [] if answer is None else answer.lines
    lines.append(("needed", found.needed))
    asked = 0 if answer is None else answer.participants
    state = "no more clients are asked" if found.learning_over else "more clients will be asked"
    phases = "1 phase" if len(found.phases) == 1 else f"{len(found.phases)} phases"
    lines.append(("asked", f"{asked:,} clients in {phases}; {state}"))
    if stated is None:
        none = "no privacy was requested" if found.phases else "nothing was released"
        lines.append(("privacy", none))
    else:
        holds = f"({stated.epsilon:g}, {stated.delta:.3g})-DP, trust {stated.trust}"
        lines.append(("privacy", f"{holds}; needs: {stated.needs}"))
    lines.append(("assumes", found.assumes))
    return lines


def _ends(one: Any) -> str:
    return f"[{_number(one.low)}, {_number(one.high)}]"


def _number(value: float | None) -> str:
    return "–" if value is None or abs(value) == float("inf") else f"{value:.4g}"


def _option_table(answer: Answer, left: int) -> Any:
    from rich.table import Table

    title = f"{min(_SHOWN, len(answer.options))} of {left:,} options left, the highest estimate first"
    table = Table(title=title, title_justify="left")
    for heading in ("option", "mean reward", "interval", "behind the best", "interval "):
        table.add_column(heading, justify="left" if heading == "option" else "right")
    for one in answer.options[:_SHOWN]:
        behind = _plain(f"[{one.behind_low:.4g}, {one.behind_high:.4g}]")
        table.add_row(
            _plain(one.option), f"{one.estimate:.4g}", _plain(_ends(one)), f"{one.behind:.4g}", behind
        )
    return table


def _effect_table(answer: Answer) -> Any:
    from rich.table import Table

    table = Table(title="effect of each term on the mean reward", title_justify="left")
    for heading in ("term", "effect", "interval"):
        table.add_column(heading, justify="left" if heading == "term" else "right")
    for one in answer.effects:
        table.add_row(_plain(one.term), f"{one.estimate:.4g}", _plain(_ends(one)))
    return table


def _plain(text: str) -> str:
    """Return text in which square brackets are not markup."""
    from rich.markup import escape

    return escape(text)
