"""`dpbandits plan`: predict the cost of a study before any client is asked."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from dpbandits._checks import whole
from dpbandits.cli._options_table import add_table_options, options_table
from dpbandits.cli._output import cover_note, provenance
from dpbandits.cli._parser import add_choice, add_value, number, whole_number
from dpbandits.cli._plan_file import check_new, write_study
from dpbandits.cli._plot import check_plot, plot_plans
from dpbandits.cli._privacy_options import TRUSTS, add_privacy_options
from dpbandits.cli._problem_options import add_problem_options, setting_from
from dpbandits.cli._reach import reach_of, shown_reach
from dpbandits.cli._terminal import console, progress_bar
from dpbandits.cli._writing import check_writable, write_document
from dpbandits.protocol import Study, ask, predict
from dpbandits.simulation import SCHEDULES, Setting, run_once

DESCRIPTION = (
    "Predict the regret, participants and communication of a study for every schedule and a grid of ε, and "
    "say when the study cannot eliminate any action. Regret is predicted, and simulated, for parameters "
    "drawn from a prior on the actual actions."
)
_SHOWN = 6  # the most phases that are listed one by one
NEVER = "these settings will never eliminate an action"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One schedule at one ε."""

    schedule: str
    trust: str
    epsilon: float | None
    predicted_regret: float
    simulated_regret: float | None
    bound_on_regret: float
    participants: int
    phases: int
    cohorts: list[int]
    """Clients per phase."""
    lengths: list[int]
    """The least number of rounds of each of these phases."""
    communication: float | None
    unit: str | None
    first_elimination: int | None
    reach: dict[str, float | None] | None
    """How far one lying client can move a mean of the first phase; None if no client is asked."""
    cover_loss: float
    """Upper bound on the loss to the best point of a covered continuous set, over all rounds, if ‖θ*‖ = 1."""

    @property
    def never_eliminates(self) -> bool:
        """Whether no phase is expected to eliminate an action."""
        return self.first_elimination is None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    group = parser.add_argument_group("study")
    add_choice(group, "--trust", TRUSTS, "whom clients trust", "shuffle")
    add_privacy_options(group, epsilon=1.0, delta=1e-6)
    add_problem_options(parser.add_argument_group("problem"))
    add_table_options(parser)
    output = parser.add_argument_group("grid and output")
    add_value(output, "--epsilons", number, "E", "a grid of ε (default: ε/10, ε/3, ε, 3ε, 10ε)", nargs="+")
    add_value(output, "--runs", whole_number, "R", "simulated runs per row; 0 for none", 4)
    write = "plan for --epsilon only, with --options or --actions-file, and write a study file"
    add_value(output, "--write", Path, "STUDY.toml", write)
    loopback = "with --write: also make keys and tokens, to serve the study on this port of this machine"
    add_value(output, "--loopback", whole_number, "PORT", loopback)
    add_value(output, "--json", str, "PATH", "write every number; - for standard output")
    add_value(output, "--plot", str, "PATH.png", "draw regret, participants and communication against ε")


def run(options: argparse.Namespace) -> int:
    """Plan every schedule at every ε, and print or write the results."""
    check_plot(options.plot)
    check_writable(options.json)
    whole(0, runs=options.runs)
    table = options_table(options)
    options.options = None if table is None else table.options.to_json()
    settings = _settings(options)
    check_new(options.write, settings[0], options.loopback)
    rows, studies = list[Row](), list[Study]()
    with progress_bar("planning", "rows") as progress:
        task = progress.add_task("rows", total=len(settings))
        for setting in settings:
            row, study = _row(setting, options.runs)
            rows.append(row)
            studies.append(study)
            progress.advance(task)
    shared = {**settings[0].as_dict(), "population": settings[0].clients}
    write_document({"settings": shared, "rows": [_as_dict(row) for row in rows]}, options.json)
    if options.json != "-":
        _show(rows, settings[0])
    if options.write is not None:
        actions = table or str(settings[0].problem.actions_file)
        write_study(options.write, studies[0], actions, options.loopback)
        print(f"study file: {options.write}", file=sys.stderr)
    if options.plot is not None:
        plot_plans([_as_dict(row) for row in rows], Path(options.plot))
        print(f"plot of the plans: {options.plot}", file=sys.stderr)
    return 0


def _settings(options: argparse.Namespace) -> list[Setting]:
    base = setting_from(options, trust=options.trust)
    if options.write is not None:
        return [base.changed(schedule="budgeted")]
    grid = options.epsilons or [options.epsilon * factor for factor in (0.1, 1 / 3, 1, 3, 10)]
    if not base.private:
        grid = [options.epsilon]
    return [base.changed(schedule=kind, epsilon=epsilon) for epsilon in grid for kind in SCHEDULES]


def _row(setting: Setting, runs: int) -> tuple[Row, Study]:
    spending = setting.planned()
    study = setting.study(setting.instance(0).actions, spending)
    prediction = predict(study)
    traces = [run_once(setting, seed, spending) for seed in range(runs)]
    asking = range(1, spending.schedule.reporting_phases(setting.horizon) + 1)
    row = Row(
        schedule=setting.schedule_kind,
        trust=setting.privacy.trust,
        epsilon=setting.privacy.epsilon if setting.private else None,
        predicted_regret=prediction.regret,
        simulated_regret=float(np.mean([t.regret for t in traces])) if traces else None,
        bound_on_regret=prediction.bound,
        participants=spending.schedule.participants(setting.horizon),
        phases=len(asking),
        cohorts=[spending.schedule.cohort(phase) for phase in asking],
        lengths=[spending.schedule.length(phase) for phase in asking],
        communication=float(np.mean([t.communication for t in traces])) if traces else None,
        unit=traces[0].unit if traces else None,
        first_elimination=prediction.first_elimination,
        reach=_reach(study),
        cover_loss=study.actions.loss * setting.horizon,
    )
    return row, study


def _reach(study: Study) -> dict[str, float | None] | None:
    """The reach of one client in the smallest cohort of the first phase."""
    mechanisms = ask(study.begin()).mechanisms
    return reach_of(min(mechanisms, key=lambda own: own.cohort)) if mechanisms else None


def _as_dict(row: Row) -> dict[str, Any]:
    return {**asdict(row), "never_eliminates": row.never_eliminates}


def _show(rows: list[Row], setting: Setting) -> None:
    show = console(150).print
    actions = setting.instance(0).actions
    title = (
        f"{provenance(setting)}{setting.privacy.trust}, {setting.horizon:,} rounds, "
        f"{actions.count:,} actions in R^{actions.dimension}"
    )
    table = Table(title=title, title_justify="left")
    for heading in ("ε", "schedule", "cohorts", "rounds", "participants", "first elimination",
                    "predicted regret", "simulated", "at most, w.h.p.", "communication"):  # fmt: skip
        table.add_column(heading, justify="left" if heading == "schedule" else "right")
    for row in rows:
        table.add_row(
            "–" if row.epsilon is None else f"{row.epsilon:.3g}",
            row.schedule,
            _listed(row.cohorts),
            _listed(row.lengths),
            f"{row.participants:,}",
            "[bold red]never[/]" if row.never_eliminates else f"phase {row.first_elimination}",
            f"{row.predicted_regret:,.0f}",
            "–" if row.simulated_regret is None else f"{row.simulated_regret:,.0f}",
            f"{row.bound_on_regret:,.0f}",
            "–" if row.communication is None else f"{row.communication:,.0f} {row.unit}",
        )
    show(table)
    note = cover_note(max(row.cover_loss for row in rows))
    if note is not None:
        show(note)
    for row in rows:
        if row.reach is not None:
            asked = "" if row.epsilon is None else f" at ε = {row.epsilon:.3g}"
            show(f"{row.schedule}{asked}, first cohort: {shown_reach(row.reach, row.trust)}")
    for row in rows:
        if row.never_eliminates:
            show(_advice(row))


def _listed(numbers: list[int]) -> str:
    """All numbers if there are few; else the first, the last and how many."""
    if len(numbers) <= _SHOWN:
        return " ".join(f"{number:,}" for number in numbers) or "–"
    return f"{numbers[0]:,} … {numbers[-1]:,} ({len(numbers)})"


def _advice(row: Row) -> str:
    asked = "" if row.epsilon is None else f" at ε = {row.epsilon:.3g}"
    return (
        f"{row.schedule}{asked}: {NEVER}. More participants, a larger ε, a trust model with less noise "
        "(central or shuffle), a smaller bound, or fewer dimensions would change that."
    )
