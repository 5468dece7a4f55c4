"""The simulated runs of `dpbandits plan`: their options, and the figures that they add to the rows."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits._checks import whole
from dpbandits.cli._engine_options import add_engine_options, engine_of, workers_of
from dpbandits.cli._parser import add_value, whole_number
from dpbandits.cli._plan_table import Row
from dpbandits.cli._terminal import progress_bar
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Spending
from dpbandits.simulation import Engine, RunTrace, Setting, Simulated, run_tasks


def add_run_options(group: Any) -> None:
    """Add `--runs` and the options that say where they are computed and kept."""
    runs = "also simulate this many runs per row; a good mean needs hundreds, because near ties are rare"
    add_value(group, "--runs", whole_number, "R", runs, 0)
    add_engine_options(group)
    add_value(group, "--checkpoint", Path, "FILE", "keep finished runs in FILE and do not repeat them")


def check_runs(options: argparse.Namespace) -> None:
    """Check the options before the planning, which takes long.

    Raises:
        InvalidValue: An option is not accepted, or the engine cannot be used.
    """
    if whole(0, runs=options.runs):
        workers_of(options)
        engine_of(options)
        return
    unused = {"backend": Engine().backend, "address": None, "workers": None, "checkpoint": None}
    for name, default in unused.items():
        if (given := getattr(options, name)) != default:
            expected = "--runs as well: only simulated runs are distributed and kept"
            raise InvalidValue(name, given, expected)


def with_runs(planned: Sequence[tuple[Setting, Spending, Row]], options: argparse.Namespace) -> list[Row]:
    """Simulate every row that has enough clients, and return all rows with the means over the runs.

    Args:
        planned: The settings, their schedules and the rows.
        options: The options of the command.
    """
    rows = [row for _, _, row in planned]
    if not options.runs:
        return rows
    jobs = {
        number: Simulated(setting=setting, spending=spending)
        for number, (setting, spending, row) in enumerate(planned)
        if not row.refused
    }
    traces = _traces(list(jobs.values()), options)
    for number, job in jobs.items():
        rows[number] = replace(rows[number], **_means(traces[job.name]))
    return rows


def _traces(jobs: Sequence[Simulated], options: argparse.Namespace) -> dict[str, dict[int, RunTrace]]:
    """Run every job with every seed; return the traces by the name of the job and by the seed."""
    found: dict[str, dict[int, RunTrace]] = {job.name: {} for job in jobs}
    distinct = {job.name: job for job in jobs}.values()
    tasks = [(job, seed) for job in distinct for seed in range(options.runs)]
    with progress_bar("simulating", "runs") as progress:
        task = progress.add_task("runs", total=len(tasks))
        for job, trace in run_tasks(
            tasks, workers=workers_of(options), engine=engine_of(options), checkpoint=options.checkpoint
        ):
            found[job.name][trace.seed] = trace
            progress.advance(task)
    return found


def _means(by_seed: dict[int, RunTrace]) -> dict[str, Any]:
    """The simulated figures of a row. Sums have the order of the seeds, so that they are reproducible."""
    traces = [by_seed[seed] for seed in sorted(by_seed)]
    return {
        "simulated_regret": float(np.mean([trace.regret for trace in traces])),
        "communication": float(np.mean([trace.communication for trace in traces])),
        "unit": traces[0].unit,
    }
