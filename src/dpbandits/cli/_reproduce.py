"""`dpbandits reproduce`: run the paper's figures and tables again and compare them with its statements."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from rich.table import Table

from dpbandits import __version__
from dpbandits._plots import check_matplotlib
from dpbandits.cli._engine_options import add_engine_options, engine_of, workers_of
from dpbandits.cli._parser import add_flag, add_value, whole_number
from dpbandits.cli._terminal import console, progress_bar
from dpbandits.errors import InvalidValue
from dpbandits.experiments import (
    EXPERIMENTS,
    FULL_RUNS,
    QUICK_RUNS,
    SCOPES,
    Item,
    Results,
    Scale,
    data_files,
    draw,
    examined,
    named,
    overall,
    report,
    tasks_of,
)
from dpbandits.simulation import Engine, run_tasks

DESCRIPTION = (
    "Run the paper's experiments in both presets and compare them with its statements. Writes figures, every "
    "number as CSV and JSON, and a self-contained HTML report. Finished runs are kept in the folder, so the "
    "same command continues after an interruption."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    names = ", ".join(experiment.name for experiment in EXPERIMENTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {names} (default: all)")
    add_value(parser, "--out", Path, "DIR", "folder for all files", Path("out/reproduce"))
    runs = f"runs per setting (default: {FULL_RUNS}, as in the paper; {QUICK_RUNS} with --quick)"
    add_value(parser, "--runs", whole_number, "R", runs)
    add_engine_options(parser)
    add_flag(parser, "--quick", "few runs, which take minutes; statements about averages are not judged")


def run(options: argparse.Namespace) -> int:
    """Run what is not in the cache yet, then write the figures, tables and report."""
    workers, engine = workers_of(options), engine_of(options)
    experiments = named(options.names, EXPERIMENTS)
    scale = Scale(runs=_runs(options), quick=options.quick)
    check_matplotlib(out=options.out)
    _make(options.out)
    found, interrupted = _run_all(tasks_of(experiments, scale), workers, engine, options)
    if interrupted:
        return 130
    items = [examined(experiment, Results(found), scale) for experiment in experiments]
    _write(items, options)
    _show(items)
    print(f"report: {options.out / 'report.html'}", file=sys.stderr)
    return 0


def _runs(options: argparse.Namespace) -> int:
    if options.runs is not None:
        return int(options.runs)
    return QUICK_RUNS if options.quick else FULL_RUNS


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue("out", folder, f"a folder that can be made ({error.strerror})") from None


def cache_file(folder: Path) -> Path:
    """The file of finished runs. Each version has its own."""
    return folder / f"runs-{__version__}.jsonl"


def _run_all(
    tasks: list[Any], workers: int | None, engine: Engine, options: argparse.Namespace
) -> tuple[list[Any], bool]:
    found: list[Any] = []
    with progress_bar("reproducing", "runs") as progress:
        task = progress.add_task("runs", total=len(tasks))
        try:
            cache = cache_file(options.out)
            for finished in run_tasks(tasks, workers=workers, engine=engine, checkpoint=cache):
                found.append(finished)
                progress.advance(task)
        except KeyboardInterrupt:
            _say_interrupted(len(found), len(tasks), options)
            return found, True
    return found, False


def _say_interrupted(done: int, total: int, options: argparse.Namespace) -> None:
    kept = f"interrupted; at least {done:,} of {total:,} runs are kept. To continue, run"
    engine = ["--backend", options.backend] if options.backend != Engine().backend else []
    engine += [] if options.address is None else ["--address", options.address]
    engine += [] if options.workers is None else ["--workers", str(options.workers)]
    print(f"{kept}\n  {_command(options, *engine)}", file=sys.stderr)


def _command(options: argparse.Namespace, *more: str) -> str:
    """The command, without the options that say where the runs are computed, and then `more` options."""
    parts = ["dpbandits", "reproduce", *options.names, "--out", str(options.out)]
    parts += [] if options.runs is None else ["--runs", str(options.runs)]
    return shlex.join([*parts, *(["--quick"] if options.quick else []), *more])


def _write(items: list[Item], options: argparse.Namespace) -> None:
    for item in items:
        files = data_files(item)
        if item.findings.panels:
            drawn = draw(item.findings.panels)
            files |= {f"{item.experiment.name}.{kind}": content for kind, content in drawn.items()}
        for file, content in files.items():
            (options.out / file).write_bytes(content)
    page = report(items, command=_command(options), version=__version__)
    (options.out / "report.html").write_text(page, encoding="utf-8")


def _show(items: list[Item]) -> None:
    title = "The paper's statements, and what these runs show"
    table = Table("item", *SCOPES, title=title, title_justify="left")
    for item in items:
        verdicts = (overall(item.findings.verdicts(scope)) or "–" for scope in SCOPES)
        table.add_row(item.experiment.title, *verdicts)
    console(110).print(table)
