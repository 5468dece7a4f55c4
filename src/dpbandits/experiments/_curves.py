"""Curves and table cells from runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.experiments._findings import Curve
from dpbandits.experiments._statistics import mean_and_deviation, regrets

_POINTS = 120


def moments(label: str, x: Sequence[float], columns: Sequence[FloatArray], **style: Any) -> Curve:
    """Return a curve of mean and standard deviation over the runs, at each x, with a colour and dashes."""
    means, deviations = zip(*map(mean_and_deviation, columns), strict=True)
    return Curve(label=label, x=tuple(map(float, x)), mean=means, deviation=deviations, **style)


def over_time(label: str, runs: Sequence[Any], horizon: int, *, per_round: bool, **style: str) -> Curve:
    """Return a curve of R(t), or R(t)/t, against t."""
    times = np.unique(np.geomspace(min(100, horizon), horizon, _POINTS).round())
    curves = np.array([run.regret_at(times) / (times if per_round else 1) for run in runs])
    return moments(label, times.tolist(), list(curves.T), **style)


def regret_cells(runs: Sequence[Any]) -> tuple[float, float]:
    """Return the mean and the standard deviation of R(T)."""
    return mean_and_deviation(regrets(runs))


def median_and_range(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the median, the least and the largest value."""
    return float(np.median(values)), float(min(values)), float(max(values))
