"""`dpbandits simulate`: compare trust models on simulated populations."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dpbandits._checks import whole
from dpbandits.cli._engine_options import add_engine_options, engine_of, workers_of
from dpbandits.cli._output import Result, as_document, as_table
from dpbandits.cli._paper_setting import add_paper_options, as_printed, fill_privacy
from dpbandits.cli._parser import add_choice, add_value, number, whole_number
from dpbandits.cli._plot import check_plot, plot_regret
from dpbandits.cli._privacy_options import TRUSTS, add_privacy_options
from dpbandits.cli._problem_options import add_problem_options, setting_from
from dpbandits.cli._terminal import console, progress_bar
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.errors import InvalidValue
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import STEP_NAMES
from dpbandits.simulation import ALGORITHMS, SCHEDULES, RunTrace, Setting, sweep

DESCRIPTION = (
    "Run DP-DPE, or DP-PE, on simulated populations and compare trust models. Without options: the paper's "
    "problem, with (ε, δ) = (1, 1e-6) for every private trust model."
)
_SCHEDULES = (
    "cohort sizes: exponential as in the paper, equal, or budgeted by the planner (default: budgeted with "
    "--participants, or with preset tight and algorithm dpe; otherwise exponential)"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    _add_algorithm(parser.add_argument_group("algorithm and privacy"))
    add_problem_options(parser.add_argument_group("problem"))
    running = parser.add_argument_group("running and output")
    add_value(running, "--runs", whole_number, "R", "runs per trust model", 20)
    add_value(running, "--seed", whole_number, "S", "seed of the first run", 0)
    add_engine_options(running)
    add_value(running, "--json", str, "PATH", "write every number; - for standard output")
    add_value(running, "--plot", str, "PATH.png", "draw the regret R(t) against time")
    add_value(running, "--checkpoint", Path, "FILE", "keep finished runs in FILE and do not repeat them")


def _add_algorithm(group: Any) -> None:
    default = Setting()
    algorithms = "dpe: growing or planned cohorts; dpe-fixed: fixed cohorts; pe: one new client per round"
    add_choice(group, "--algorithm", ALGORITHMS, algorithms, default.algorithm)
    trusts = (
        "whom clients trust; repeat for several (default: every model that offers the preset and the noise)"
    )
    add_choice(group, "--trust", TRUSTS, trusts, action="append")
    add_privacy_options(
        group,
        epsilon=None,
        delta=None,
        epsilon_note=" (default: 1; 10 with --paper-setting)",
        delta_note=" (default: 1e-6; 0.25 with --paper-setting)",
    )
    add_paper_options(group)
    share = "share of a cohort that must report; the noise is calibrated for this many reports"
    add_value(group, "--minimum-share", number, "Q", share, default.privacy.minimum_share)
    sampled = "largest share of --population that is asked; who is asked is secret (central model only)"
    add_value(group, "--sampled-share", number, "Q", sampled, 1.0)
    add_choice(group, "--schedule", SCHEDULES, _SCHEDULES)
    steps = "leave out a step of preset tight; repeat for several"
    add_choice(group, "--without", STEP_NAMES, steps, action="append")
    fixed = "clients per cohort with algorithm dpe-fixed"
    add_value(group, "--fixed-cohort", whole_number, "U", fixed, default.cohorts.fixed_cohort)
    add_value(group, "--maximum-cohort", whole_number, "U", "upper bound on every cohort")
    designs = (
        "designs have g <= G × rank (default: planned with schedule budgeted, otherwise 1.3; the paper has 2)"
    )
    add_value(group, "--design-tolerance", number, "G", designs)


def run(options: argparse.Namespace) -> int:
    """Run every trust model, show the table, and write the files that the options name."""
    fill_privacy(options)
    whole(1, runs=options.runs)
    whole(0, seed=options.seed)
    check_plot(options.plot)
    check_writable(options.json)
    if options.schedule == "exponential" and options.participants is not None:
        expected = "none with schedule exponential, where --alpha decides"
        raise InvalidValue("participants", options.participants, expected)
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
    settings = [setting_from(options, trust=trust) for trust in dict.fromkeys(trusts)]
    compared = [as_printed(setting) for setting in settings] if options.compare_paper else []
    return list(dict.fromkeys([*settings, *compared]))


def _has(trust: str, options: argparse.Namespace) -> bool:
    """Whether a trust model offers the requested noise and preset. By default, only such models are run."""
    if options.noise is not None:
        return TRUST_MODELS[trust].private and TRUST_MODELS[trust].offers(options.noise)
    return (options.preset, options.delta == 0) in TRUST_MODELS[trust].defaults


def _run_all(
    settings: list[Setting], seeds: range, options: argparse.Namespace
) -> tuple[dict[Setting, list[RunTrace]], bool]:
    runs: dict[Setting, list[RunTrace]] = {setting: [] for setting in settings}
    workers, engine = workers_of(options), engine_of(options)
    with progress_bar("simulating", "runs") as progress:
        task = progress.add_task("runs", total=len(settings) * len(seeds))
        try:
            finished = sweep(settings, seeds, workers=workers, engine=engine, checkpoint=options.checkpoint)
            for setting, trace in finished:
                runs[setting].append(trace)
                progress.advance(task)
        except KeyboardInterrupt:
            return runs, True
    return runs, False


def _write(results: list[Result], options: argparse.Namespace) -> None:
    """Print the table on standard output, unless the JSON goes there."""
    write_document(as_document(results, _recorded(options)), options.json)
    if options.json != "-":
        console(150).print(as_table(results))
    if options.plot is not None and results:
        plot_regret(results, Path(options.plot))
        print(f"plot of the regret: {options.plot}", file=sys.stderr)


def _recorded(options: argparse.Namespace) -> dict[str, Any]:
    """The settings for the JSON: those that all rows share, and the trust models of the rows."""
    settings = _settings(options)
    trusts = list(dict.fromkeys(setting.privacy.trust for setting in settings))
    shared = {**settings[0].as_dict(), "population": settings[0].clients}
    return {**shared, "trust": trusts, "runs": options.runs, "seed": options.seed}


def _say_interrupted(runs: dict[Setting, list[RunTrace]], total: int, checkpoint: Path | None) -> None:
    done = sum(map(len, runs.values()))
    again = (
        f"run the same command again with --checkpoint {checkpoint} to continue"
        if checkpoint
        else "use --checkpoint to keep finished runs"
    )
    print(f"interrupted after {done} of {total} runs, shown above; {again}", file=sys.stderr)
