"""The numbers of an experiment as CSV and JSON files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dpbandits.experiments._findings import Cell, Panel
from dpbandits.experiments._running import Item

_OF_RUN = ("regret", "participants", "communication", "unit", "actions_left", "best_action_survived")


def data_files(item: Item) -> dict[str, bytes]:
    """Return the data files of an experiment.

    Args:
        item: The experiment that was run.

    Returns:
        The contents by file name: one CSV file per table, one for the curves and one for the runs, and one
        JSON file with everything.
    """
    name, findings = item.experiment.name, item.findings
    files = {f"{name}-{table.name}.csv": as_csv(table.columns, table.rows) for table in findings.tables}
    points = ("panel", "curve", "x", "mean", "standard deviation")
    files[f"{name}-curves.csv"] = as_csv(points, curve_rows(findings.panels))
    files[f"{name}-runs.csv"] = as_csv(("label", "seed", *_OF_RUN, "true δ"), run_rows(item))
    files[f"{name}.json"] = as_json(document(item))
    return files


def as_csv(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a CSV file with headings. Floats keep all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return text.getvalue().encode()


def as_json(value: Any) -> bytes:
    """Return an indented JSON file that ends with a newline."""
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def curve_rows(panels: Iterable[Panel]) -> list[tuple[Cell, ...]]:
    """Return one row per point that is drawn."""
    rows = list[tuple[Cell, ...]]()
    for panel in panels:
        for curve in panel.curves:
            points = zip(curve.x, curve.mean, curve.deviation or (None,) * len(curve.x), strict=True)
            rows += [(panel.title, curve.label, *point) for point in points]
    return rows


def run_rows(item: Item) -> list[tuple[Cell, ...]]:
    """Return one row per run; values that a baseline does not have stay empty."""
    rows = list[tuple[Cell, ...]]()
    for label, runs in item.runs:
        for run in runs:
            stated = getattr(run, "guarantee", None)
            values = tuple(getattr(run, field, None) for field in _OF_RUN)
            rows.append((label, run.seed, *values, None if stated is None else stated.delta))
    return rows


def document(item: Item) -> dict[str, Any]:
    """Return the findings, and the numbers of every run."""
    experiment = item.experiment
    columns = ("label", "seed", *_OF_RUN, "true_delta")
    return {
        "simulated": True,
        "name": experiment.name,
        "title": experiment.title,
        "statement": experiment.statement,
        "choices": experiment.choices,
        "scale": item.scale,
        "checks": item.findings.checks,
        "tables": item.findings.tables,
        "panels": item.findings.panels,
        "runs": [dict(zip(columns, row, strict=True)) for row in run_rows(item)],
    }
