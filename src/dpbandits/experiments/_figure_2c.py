"""Figure 2c: growing cohorts against a fixed one with the same communication."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbandits.experiments._curves import median_and_range, over_time, regret_cells
from dpbandits.experiments._experiment import Experiment, Results, Scale, Work
from dpbandits.experiments._findings import Cell, Check, Findings, Panel, Table
from dpbandits.experiments._jobs import MatchedFixedCohort
from dpbandits.experiments._models import COLOURS, PRESETS, survived, without_privacy
from dpbandits.experiments._statistics import below, regrets

PAPERS_COHORT = 97
SAME = 1.1  # the factor within which the communication of both algorithms must agree


def pair(preset: str, runs: int) -> tuple[Work, Work]:
    """Return DPE and DPE-FixedU."""
    fixed = MatchedFixedCohort(setting=PRESETS[preset])
    return without_privacy(preset, runs), Work(label=f"{preset} DPE-FixedU", job=fixed, runs=runs)


def works(scale: Scale) -> list[Work]:
    """Return both algorithms in both presets."""
    return [work for preset in PRESETS for work in pair(preset, scale.runs)]


def examine(results: Results, scale: Scale) -> Findings:
    """Return one panel per preset."""
    panels, rows, checks = list[Panel](), list[tuple[Cell, ...]](), list[Check]()
    for preset in PRESETS:
        growing, fixed = (results.of(work) for work in pair(preset, scale.runs))
        panels.append(_panel(growing, fixed, preset))
        rows += [_row(preset, "DPE", growing), _row(preset, "DPE-FixedU", fixed)]
        checks += _checks(growing, fixed, preset, scale)
    columns = (
        "preset", "algorithm", "regret", "standard deviation", "communication (numbers)", "participants",
        "U, median", "U, least", "U, largest", "best action survived",
    )  # fmt: skip
    table = Table(name="regret", title="Regret and cost", columns=columns, rows=tuple(rows))
    return Findings(tables=(table,), panels=tuple(panels), checks=tuple(checks))


def cohorts(runs: list[Any]) -> list[int]:
    """Return U of each run of DPE-FixedU."""
    return [run.phases[0].cohort for run in runs]


def overtakes(growing: list[Any], fixed: list[Any], horizon: int) -> int | None:
    """Return the round from which the mean regret of `growing` stays at or below that of `fixed`.

    It is 0 if this holds in all rounds, and None if it does not hold at the end.
    """
    times = np.unique(np.geomspace(1, horizon, 400).round())
    curves = [np.mean([run.regret_at(times) for run in runs], axis=0) for runs in (growing, fixed)]
    behind = np.flatnonzero(curves[0] > curves[1])
    if len(behind) == 0:
        return 0
    last = int(behind[-1])
    return None if last + 1 == len(times) else int(times[last + 1])


def _panel(growing: list[Any], fixed: list[Any], preset: str) -> Panel:
    horizon = PRESETS[preset].horizon
    label = f"DPE-FixedU, U = {np.median(cohorts(fixed)):.0f} (median)"
    curves = (
        over_time("DPE, growing cohorts", growing, horizon, per_round=True, colour=COLOURS["central"]),
        over_time(label, fixed, horizon, per_round=True, colour=COLOURS["local"], dashes="--"),
    )
    return Panel(
        title=f"{preset}, no privacy, {len(growing)} runs",
        x_label="round t",
        y_label="regret per round, R(t)/t",
        x_scale="log",
        curves=curves,
    )


def _row(preset: str, name: str, runs: list[Any]) -> tuple[Cell, ...]:
    sizes: tuple[Cell, ...] = (None, None, None)
    if name == "DPE-FixedU":
        sizes = median_and_range(cohorts(runs))
    cost = (float(np.mean([r.communication for r in runs])), float(np.mean([r.participants for r in runs])))
    return (preset, name, *regret_cells(runs), *cost, *sizes, survived(runs))


def _checks(growing: list[Any], fixed: list[Any], preset: str, scale: Scale) -> list[Check]:
    one, other = regrets(growing), regrets(fixed)
    median, least, largest = median_and_range(cohorts(fixed))
    spent = [float(np.mean([run.communication for run in runs])) for runs in (growing, fixed)]
    ahead = overtakes(growing, fixed, PRESETS[preset].horizon)
    return [
        scale.check(
            "DPE has less regret than DPE-FixedU at all times",
            ahead == 0,
            "never" if ahead is None else f"from round {ahead:,} on",
            why=(
                "U is larger than the first cohorts of DPE, so DPE-FixedU drops actions earlier. "
                "DPE overtakes it once its own cohorts are larger."
            ),
            scope=preset,
        ),
        scale.check(
            "DPE has less regret than DPE-FixedU at the end",
            below(one, other),
            f"{one.mean():,.0f} against {other.mean():,.0f}",
            scope=preset,
        ),
        scale.check(
            f"the communication is the same (within {SAME:g} ×)",
            max(spent) <= SAME * min(spent),
            f"{spent[0]:,.0f} against {spent[1]:,.0f} numbers",
            why=(
                "The formula uses the supports of DPE's phases. DPE-FixedU drops actions at other times, "
                "so its phases have other supports and the totals differ."
            ),
            scope=preset,
        ),
        scale.check(
            f"U = {PAPERS_COHORT}",
            least <= PAPERS_COHORT <= largest,
            f"U = {median:g} (median), {least:g} … {largest:g} over the instances",
            why="U depends on the phases in which actions are dropped, and so on the unknown instance.",
            scope=preset,
        ),
    ]


EXPERIMENT = Experiment(
    name="figure-2c",
    title="Figure 2c: DPE against DPE-FixedU",
    statement=(
        "With the same communication, growing cohorts learn much faster than a fixed number of clients per "
        "phase. On the authors' instance, that number is U = 97."
    ),
    choices=(
        "U = ⌈Σ |U_l| N_l / Σ N_l⌉ over the phases that report, from a run of DPE on the same instance, "
        "so each instance has its own U.",
        "A client of phase l sends N_l numbers: one per action of the design's support.",
    ),
    works=works,
    examine=examine,
)
