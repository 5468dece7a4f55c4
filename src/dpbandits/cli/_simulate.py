"""`dpbandits simulate`: trust models side by side, on populations drawn by the computer."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import joblib
from rich.console import Console

from dpbandits._checks import whole
from dpbandits.cli._output import Result, as_document, as_table
from dpbandits.cli._parser import DefaultsInHelp, number, whole_number
from dpbandits.cli._plot import check_plot, plot_regret
from dpbandits.cli._privacy_options import TRUSTS, add_privacy_options
from dpbandits.cli._problem_options import add_problem_options, setting_from
from dpbandits.cli._progress import progress_bar
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.errors import InvalidValue
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import STEP_NAMES
from dpbandits.simulation import ALGORITHMS, SCHEDULES, RunTrace, Setting, sweep


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its options; every default is the paper's setting."""
    parser = commands.add_parser(
        "simulate",
        help=summary,
        description="Run DP-DPE, or DP-PE, on simulated populations and compare trust models. Without "
        "options: the setting of the paper's experiments.",
        formatter_class=DefaultsInHelp,
    )
    parser.set_defaults(run=run)
    algorithm = parser.add_argument_group("algorithm and privacy")
    _add_algorithm(algorithm)
    _add_cohorts(algorithm)
    add_problem_options(parser.add_argument_group("problem"))
    _add_running(parser.add_argument_group("running and output"))


def _add_algorithm(group: Any) -> None:
    default = Setting()
    group.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default=default.algorithm,
        help="growing cohorts, fixed ones, or a new client in every round",
    )
    group.add_argument(
        "--trust",
        choices=TRUSTS,
        action="append",
        help="whom clients trust; repeat for several (default: all that the preset has)",
    )
    add_privacy_options(group, epsilon=default.epsilon, delta=default.delta)
    group.add_argument(
        "--minimum-share",
        type=number,
        default=default.minimum_share,
        metavar="Q",
        help="the share of a cohort that must answer; shared noise suffices for these alone",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="how participants are spread over phases: the paper's growing cohorts, or a budget divided "
        "(default: budgeted in tight, exponential in paper)",
    )
    group.add_argument(
        "--stop-when-decided", action="store_true", help="ask nobody once a single action is left"
    )
    group.add_argument(
        "--without", choices=STEP_NAMES, action="append", help="leave out a step of tight; repeat for several"
    )


def _add_cohorts(group: Any) -> None:
    default = Setting()
    group.add_argument(
        "--fixed-cohort", type=whole_number, default=default.fixed_cohort, metavar="U", help="for dpe-fixed"
    )
    group.add_argument(
        "--maximum-cohort", type=whole_number, default=None, metavar="U", help="never ask more at once"
    )
    group.add_argument(
        "--design-tolerance",
        type=number,
        default=default.design_tolerance,
        metavar="G",
        help="designs have g <= G × dimension (default: planned with a budget, else 1.3; the paper's is 2)",
    )


def _add_running(group: Any) -> None:
    group.add_argument("--runs", type=whole_number, default=20, metavar="R", help="runs of each trust model")
    group.add_argument("--seed", type=whole_number, default=0, metavar="S", help="of the first run")
    group.add_argument(
        "--workers", type=whole_number, default=joblib.cpu_count(), metavar="W", help="processes at a time"
    )
    group.add_argument("--json", metavar="PATH", help="write every number; - for standard output")
    group.add_argument("--plot", metavar="PATH.png", help="draw per-round regret against time")
    group.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="keep finished runs here; start again to go on"
    )


def run(options: argparse.Namespace) -> int:
    """Run everything, then show the table, and write what was asked for."""
    whole(1, runs=options.runs)
    whole(0, seed=options.seed)
    check_plot(options.plot)
    check_writable(options.json)
    if options.schedule == "exponential" and options.participants is not None:
        raise InvalidValue("participants", options.participants, "none: alpha decides in that schedule")
    settings = _settings(options)
    seeds = range(options.seed, options.seed + options.runs)
    runs, interrupted = _run_all(settings, seeds, options)
    results = [Result.of(setting, runs[setting]) for setting in settings if runs[setting]]
    _write(results, options)
    if interrupted:
        _say_interrupted(runs, len(settings) * len(seeds), options.checkpoint)
    return 130 if interrupted else 0


def _settings(options: argparse.Namespace) -> list[Setting]:
    trusts = options.trust or [trust for trust in TRUST_MODELS if _has(trust, options)]
    return [setting_from(options, trust=trust) for trust in dict.fromkeys(trusts)]


def _has(trust: str, options: argparse.Namespace) -> bool:
    """Whether this trust model can do what was asked, so that the default rows are those that can."""
    if options.noise is not None:
        return TRUST_MODELS[trust].private and TRUST_MODELS[trust].offers(options.noise)
    return (options.preset, options.delta == 0) in TRUST_MODELS[trust].defaults


def _run_all(
    settings: list[Setting], seeds: range, options: argparse.Namespace
) -> tuple[dict[Setting, list[RunTrace]], bool]:
    runs: dict[Setting, list[RunTrace]] = {setting: [] for setting in settings}
    with progress_bar("simulating", "runs") as progress:
        task = progress.add_task("runs", total=len(settings) * len(seeds))
        try:
            finished = sweep(settings, seeds, workers=options.workers, checkpoint=options.checkpoint)
            for setting, trace in finished:
                runs[setting].append(trace)
                progress.advance(task)
        except KeyboardInterrupt:
            return runs, True
    return runs, False


def _write(results: list[Result], options: argparse.Namespace) -> None:
    """The table goes to standard output, unless the JSON does."""
    write_document(as_document(results, _recorded(options)), options.json)
    if options.json != "-":
        Console(width=None if sys.stdout.isatty() else 150).print(as_table(results))
    if options.plot is not None and results:
        plot_regret(results, Path(options.plot))
        print(f"plot of per-round regret: {options.plot}", file=sys.stderr)


def _recorded(options: argparse.Namespace) -> dict[str, Any]:
    """The settings as they go into the JSON: those that all rows share, and which rows there are."""
    settings = _settings(options)
    trusts = [setting.trust for setting in settings]
    shared = {**asdict(settings[0]), "population": settings[0].clients}
    return {**shared, "trust": trusts, "runs": options.runs, "seed": options.seed}


def _say_interrupted(runs: dict[Setting, list[RunTrace]], total: int, checkpoint: Path | None) -> None:
    done = sum(map(len, runs.values()))
    again = (
        f"start again with --checkpoint {checkpoint} to go on"
        if checkpoint
        else "use --checkpoint to keep runs"
    )
    print(f"interrupted after {done} of {total} runs, shown above; {again}", file=sys.stderr)
