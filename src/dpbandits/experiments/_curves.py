"""Curves and table cells from runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.experiments._findings import Cell, Curve
from dpbandits.experiments._statistics import mean_and_deviation, regrets

_POINTS = 120


def moments(
    label: str,
    x: Sequence[float],
    columns: Sequence[FloatArray],
    *,
    colour: str = "#000000",
    dashes: str = "-",
) -> Curve:
    """Return a curve of mean and standard deviation over the runs, at each x."""
    pairs = [mean_and_deviation(values) for values in columns]
    means, deviations = zip(*pairs, strict=True)
    return Curve(
        label=label, x=tuple(map(float, x)), mean=means, deviation=deviations, colour=colour, dashes=dashes
    )


def over_time(
    label: str, runs: Sequence[Any], horizon: int, *, per_round: bool, colour: str, dashes: str = "-"
) -> Curve:
    """Return a curve of R(t), or R(t)/t, against t."""
    times = np.unique(np.geomspace(min(100, horizon), horizon, _POINTS).round())
    curves = np.array([run.regret_at(times) / (times if per_round else 1) for run in runs])
    return moments(label, times.tolist(), list(curves.T), colour=colour, dashes=dashes)


def regret_cells(runs: Sequence[Any]) -> tuple[Cell, ...]:
    """Return the mean and the standard deviation of R(T)."""
    return mean_and_deviation(regrets(runs))


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the least and the largest value."""
    return float(np.median(values)), float(min(values)), float(max(values))
