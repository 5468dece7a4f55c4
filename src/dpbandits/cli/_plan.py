"""`dpbandits plan`: predict the cost of a study before any client is asked."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from dpbandits._checks import two_ends
from dpbandits.cli._modes import modes_of
from dpbandits.cli._noises import compared_noises, least_local_deviation
from dpbandits.cli._options_table import OptionsTable, add_table_options, options_table, show_left_out
from dpbandits.cli._parser import add_value, number, whole_number
from dpbandits.cli._plan_file import check_new, write_study
from dpbandits.cli._plan_reserving import add_reserving_options, check_reserving, reserve
from dpbandits.cli._plan_runs import add_run_options, check_runs, with_runs
from dpbandits.cli._plan_table import Row, show
from dpbandits.cli._plot import check_plot, plot_plans
from dpbandits.cli._privacy_options import TRUSTS, add_privacy_options
from dpbandits.cli._problem_options import add_problem_options, setting_from
from dpbandits.cli._reach import reach_of
from dpbandits.cli._terminal import progress_bar
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.errors import InvalidValue, NotEnoughClients
from dpbandits.privacy import Mechanism
from dpbandits.protocol import Spending, Study, ask, predict
from dpbandits.simulation import SCHEDULES, Setting

DESCRIPTION = (
    "Predict the regret, participants and communication of a study for every trust model, schedule and ε, "
    "and say when the study cannot eliminate any action. Regret is predicted for parameters drawn from a "
    "prior on the actual actions, and with --runs also simulated. With --confidence, the table has the "
    "expected participants until one action is left."
)
_PREDICTED_PHASES = 160  # phases per row, of all θ* together: one phase takes up to 1 ms
_FEWEST_DRAWS = 16  # θ* per row


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    group = parser.add_argument_group("study")
    several = "whom clients trust; several give rows for each (default: shuffle)"
    group.add_argument("--trust", choices=TRUSTS, nargs="+", default=["shuffle"], help=several)
    add_privacy_options(group, epsilon=1.0, delta=1e-6)
    share = "share of a cohort that must report; the noise is calibrated for this many reports"
    add_value(group, "--minimum-share", number, "Q", share, Setting().privacy.minimum_share)
    sampled = "largest share of --population that is asked; who is asked is secret (central model only)"
    add_value(group, "--sampled-share", number, "Q", sampled, 1.0)
    add_problem_options(parser.add_argument_group("problem"))
    add_table_options(parser)
    output = parser.add_argument_group("grid and output")
    add_value(output, "--epsilons", number, "E", "a grid of ε (default: ε/10, ε/3, ε, 3ε, 10ε)", nargs="+")
    add_run_options(output)
    write = "plan for --epsilon only, with --options or --actions-file, and write a study file"
    add_value(output, "--write", Path, "STUDY.toml", write)
    loopback = "with --write: also make keys and tokens, to serve the study on this port of this machine"
    add_value(output, "--loopback", whole_number, "PORT", loopback)
    ends = "with --write: the range of single rewards in your units; clients clip to it"
    output.add_argument("--reward-range", nargs=2, type=number, metavar=("LOW", "HIGH"), help=ends)
    add_reserving_options(output)
    add_value(output, "--json", str, "PATH", "write every number; - for standard output")
    plot = "draw regret, participants and communication against ε; with several trust models one file each"
    add_value(output, "--plot", str, "PATH.png", plot)


def run(options: argparse.Namespace) -> int:
    """Plan every schedule at every ε, and print or write the results."""
    check_plot(options.plot)
    check_writable(options.json)
    check_runs(options)
    _read_range(options)
    check_reserving(options)
    table = options_table(options)
    show_left_out(table)
    options.options = None if table is None else table.options.to_json()
    settings = _settings(options)
    check_new(options.write, settings[0], options.loopback)
    if options.write is not None:
        return _write(options, settings[0], table)
    planned = list[tuple[Setting, Spending, Row]]()
    with progress_bar("planning", "rows") as progress:
        task = progress.add_task("rows", total=len(settings))
        for setting in settings:
            planned.append(_planned(setting))
            progress.advance(task)
            if progress.disable:  # standard error is not a terminal
                done = f"planned {len(planned)} of {len(settings)} rows: {planned[-1][2].name}"
                print(done, file=sys.stderr, flush=True)
    _output(with_runs(planned, options), settings, options)
    return 0


def _read_range(options: argparse.Namespace) -> None:
    """Check `--reward-range` and convert it to two floats.

    Clients clip rewards to this range, so rewards count as bounded unless --bounded-rewards or
    --no-bounded-rewards is given.
    """
    if options.reward_range is None:
        return
    options.reward_range = two_ends(reward_range=options.reward_range)
    if options.write is None:
        raise InvalidValue(
            "reward_range", options.reward_range, "--write as well: it is part of a study file"
        )
    if options.bounded_rewards is None:
        options.bounded_rewards = True


def _write(options: argparse.Namespace, setting: Setting, table: OptionsTable | None) -> int:
    """Plan one study and write its file. Unlike a row of the table, it must have enough clients."""
    found = reserve(setting, None if table is None else table.options, options)
    setting, spending = found.setting, found.setting.planned()
    study = found.study(setting.study(setting.instance(0).actions, spending))
    study = replace(study, reward_range=options.reward_range)
    _output(with_runs([(setting, spending, _row(setting, spending))], options), [setting], options)
    write_study(options.write, study, table or str(setting.problem.actions_file), options.loopback)
    if found.words():
        print(f"reserved: {found.words()}", file=sys.stderr)
    print(f"study file: {options.write}", file=sys.stderr)
    return 0


def _output(rows: list[Row], settings: list[Setting], options: argparse.Namespace) -> None:
    trusts = list(dict.fromkeys(row.trust for row in rows))
    shared = {**settings[0].as_dict(), "population": settings[0].clients, "trust": trusts}
    write_document({"settings": shared, "rows": [_as_dict(row) for row in rows]}, options.json)
    if options.json != "-":
        show(rows, settings[0])
    if options.plot is not None:
        path = Path(options.plot)
        for trust in trusts:
            own = path if len(trusts) == 1 else path.with_stem(f"{path.stem}-{trust}")
            plot_plans([_as_dict(row) for row in rows if row.trust == trust], own)
            print(f"plot of the plans: {own}", file=sys.stderr)


def _settings(options: argparse.Namespace) -> list[Setting]:
    trusts = list(dict.fromkeys(options.trust))
    bases = [setting_from(options, trust=trust) for trust in trusts]
    if options.write is not None:
        if len(trusts) > 1:
            raise InvalidValue("trust", " ".join(trusts), "one trust model with --write")
        return [bases[0].changed(schedule="budgeted")]
    grid = options.epsilons or [options.epsilon * factor for factor in (0.1, 1 / 3, 1, 3, 10)]
    return [
        base.changed(schedule=kind, epsilon=epsilon)
        for base in bases
        for epsilon in (grid if base.private else [options.epsilon])
        for kind in SCHEDULES
    ]


def _planned(setting: Setting) -> tuple[Setting, Spending, Row]:
    spending = setting.planned()
    return setting, spending, _row(setting, spending)


def _row(setting: Setting, spending: Spending) -> Row:
    schedule = spending.schedule
    asking = range(1, schedule.reporting_phases(setting.horizon) + 1)
    plan: dict[str, Any] = {
        "schedule": setting.schedule_kind,
        "trust": setting.privacy.trust,
        "epsilon": setting.privacy.epsilon if setting.private else None,
        "participants": schedule.participants(setting.horizon),
        "phases": len(asking),
        "cohorts": [schedule.cohort(phase) for phase in asking],
        "lengths": [schedule.length(phase) for phase in asking],
    }
    try:
        study = setting.study(setting.instance(0).actions, spending)
    except NotEnoughClients as error:
        return Row(**plan, population=error.population)
    return Row(**plan, **_figures(study))


def _figures(study: Study) -> dict[str, Any]:
    """The predicted figures of a row."""
    phases = max(1, study.schedule.reporting_phases(study.horizon))
    draws = max(_FEWEST_DRAWS, _PREDICTED_PHASES // phases)
    with threadpool_limits(limits=1):  # more threads only cost processor time
        prediction, mechanism = predict(study, draws=draws), _first_mechanism(study)
    return {
        "predicted_regret": prediction.regret,
        "predicted_median": prediction.median_regret,
        "chance_of_best": prediction.chance_of_best,
        "expected_gap": prediction.expected_gap,
        "until_sure": None if study.confidence is None else prediction.participants,
        "chance_of_sure": None if study.confidence is None else prediction.chance_of_sure,
        "bound_on_regret": prediction.bound,
        "first_elimination": prediction.first_elimination,
        "report_bytes": None if mechanism is None else mechanism.message.size,
        **({} if mechanism is None else _noise(study, mechanism)),
        "reach": None if mechanism is None else reach_of(mechanism),
        "modes": [] if mechanism is None else modes_of(mechanism),
        "cover_loss": study.actions.loss * study.horizon,
    }


def _noise(study: Study, mechanism: Mechanism) -> dict[str, Any]:
    """The noise of a mechanism, and what it is compared with."""
    if not study.privacy.trust_model.private:
        return {}
    return {
        "noise": mechanism.noise_name,
        "noises": compared_noises(study.noise_request, mechanism, confidence=study.bound_failure),
        "deviation": mechanism.error_deviation(mechanism.cohort),
        "least_deviation": least_local_deviation(mechanism),
    }


def _first_mechanism(study: Study) -> Mechanism | None:
    """The mechanism of the first phase, of its smallest cohort; None if it asks nobody."""
    mechanisms = ask(study.begin()).mechanisms
    return min(mechanisms, key=lambda own: own.cohort) if mechanisms else None


def _as_dict(row: Row) -> dict[str, Any]:
    return {**asdict(row), "never_eliminates": row.never_eliminates, "not_enough_clients": row.refused}
