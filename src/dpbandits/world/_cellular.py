"""Cellular measurements (ColO-RAN) as a bandit problem: actions are scheduler × split, users are phones.

The file is a CSV table, plain or gzip, with one line per phone and experiment. These columns are read:

    sched                 0 round-robin, 1 waterfilling, 2 proportionally fair
    rbg0, rbg1, rbg2      resource block groups of the slices: broadband, machine-type, low-latency
    ue, slice_id          the phone, and the slice it was in
    n_windows             the number of measured windows
    dl_mbps               the mean downlink rate

The class of a phone is the slice that it is in most often. Lines in which the phone is in another slice, or
with fewer than `FEWEST_WINDOWS` windows, are skipped. The reward is the rate divided by the best mean rate of
any phone of its class in any configuration, minus one: a shortfall in [−1, 0]. So a class with heavy traffic
does not count more than others.

The features of a configuration are the scheduler (two contrasts), the broadband and the machine-type share of
the resources, their squares and their product; the third share is the rest. They become actions as in
_features.py. Each phone has a measured mean reward per configuration. θ_u is its least-squares fit, θ* is the
mean of all θ_u, and Σ is their covariance. Real rewards are not exactly linear: see `Dataset.misfit`.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.world._dataset import Dataset
from dpbandits.world._features import whitened
from dpbandits.world._text_files import numbered_lines

SCHEDULERS = ("round-robin", "waterfilling", "proportionally fair")
COLUMNS = ("sched", "rbg0", "rbg1", "rbg2", "ue", "slice_id", "n_windows", "dl_mbps")
FEWEST_WINDOWS = 500
Configuration = tuple[int, int, int, int]
"""The scheduler, and the resource block groups of the three slices."""


class Line(NamedTuple):
    """One phone in one experiment."""

    configuration: Configuration
    phone: int
    slice_id: int
    windows: int
    rate: float


def cellular(path: str | Path) -> Dataset:
    """Read the table; every phone must have been measured in every configuration."""
    lines, classes = _usable(_read(path), path)
    phones = sorted({line.phone for line in lines})
    configurations = sorted({line.configuration for line in lines})
    rates, noise = _mean_rates(lines, phones, configurations, path)
    groups = np.array([classes[phone] for phone in phones])
    # The best mean rate of any phone of the same class, for each phone.
    best = np.array([rates[groups == group].max() for group in groups])[:, None]
    measured = rates / best - 1
    actions = _actions(configurations, path)
    parameters = np.linalg.lstsq(actions, measured.T, rcond=None)[0].T
    theta = parameters.mean(axis=0)
    scale = 1 / max(1.0, float(np.linalg.norm(theta)))
    return Dataset(
        name=Path(path).name,
        catalogue=actions,
        labels=tuple(_label(configuration) for configuration in configurations),
        theta=scale * theta,
        parameters=scale * parameters,
        covariance=scale**2 * np.cov(parameters.T, bias=True),
        noise=scale * float(np.sqrt(np.mean(noise / best**2))),
        whole_catalogue=True,
        measured=scale * measured,
    )


def _read(path: str | Path) -> list[Line]:
    """Read all lines of the table."""
    numbered = numbered_lines(path)
    header = [name.strip() for name in next(numbered, (1, ""))[1].split(",")]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        given = f"{path} without column {', '.join(missing)}"
        raise InvalidValue("data", given, "a table with " + ", ".join(COLUMNS))
    places = [header.index(name) for name in COLUMNS]
    # No cell of this table is quoted over several lines, so each line is one row.
    filled = ((number, text) for number, text in numbered if text.strip())
    return [_line(next(csv.reader([text])), places, path, number) for number, text in filled]


def _line(cells: list[str], places: list[int], path: str | Path, number: int) -> Line:
    """Parse one line; an error names the line and the column."""
    numbers = list[float]()
    for name, place in zip(COLUMNS, places, strict=True):
        cell = cells[place] if place < len(cells) else ""
        try:
            numbers.append(float(cell) if name == "dl_mbps" else int(float(cell)))
        except (ValueError, OverflowError):
            raise InvalidValue(f"{path}, line {number}, {name}", repr(cell), "a number") from None
        if not 0 <= numbers[-1] < np.inf:
            raise InvalidValue(f"{path}, line {number}, {name}", repr(cell), "a finite number >= 0")
    scheduler, first, second, third, phone, slice_id, windows = map(int, numbers[:7])
    if scheduler >= len(SCHEDULERS):
        raise InvalidValue(f"{path}, line {number}, sched", scheduler, "0, 1 or 2")
    if first + second + third == 0:
        raise InvalidValue(f"{path}, line {number}, rbg0 to rbg2", "0, 0, 0", "some resources")
    return Line((scheduler, first, second, third), phone, slice_id, windows, numbers[7])


def _usable(lines: list[Line], path: str | Path) -> tuple[list[Line], dict[int, int]]:
    """Return the usable lines, and the class of each phone."""
    seen = defaultdict[int, Counter[int]](Counter)
    for line in lines:
        seen[line.phone][line.slice_id] += 1
    classes = {phone: counts.most_common(1)[0][0] for phone, counts in seen.items()}
    kept = [x for x in lines if x.windows >= FEWEST_WINDOWS and x.slice_id == classes[x.phone]]
    count = len({line.phone for line in kept})
    if count < 2:
        expected = f"at least 2 users with {FEWEST_WINDOWS} windows in their own slice"
        raise InvalidValue("data", f"{path} with {count} phones", expected)
    return kept, classes


def _mean_rates(
    lines: list[Line], phones: list[int], configurations: list[Configuration], path: str | Path
) -> tuple[FloatArray, FloatArray]:
    """Return the mean rate per phone and configuration, and each phone's variance between repeats."""
    cells = defaultdict[tuple[int, Configuration], list[float]](list)
    for line in lines:
        cells[line.phone, line.configuration].append(line.rate)
    for phone, configuration in product(phones, configurations):
        if (phone, configuration) not in cells:
            given = f"{path}: phone {phone} without {_label(configuration)}"
            raise InvalidValue("data", given, "every phone in every configuration")
    means = np.array([[np.mean(cells[phone, c]) for c in configurations] for phone in phones])
    variances = [_within([cells[phone, c] for c in configurations]) for phone in phones]
    if not np.all(means.max(axis=1) > 0):
        given = f"{path}: a phone with rate 0 throughout"
        raise InvalidValue("data", given, "a positive rate in some configuration")
    return means, np.array(variances)[:, None]


def _within(repeats: list[list[float]]) -> float:
    """Return the pooled variance within the cells."""
    freedom = sum(len(cell) - 1 for cell in repeats)
    return sum(float(np.var(cell)) * len(cell) for cell in repeats) / max(1, freedom)


def _actions(configurations: list[Configuration], path: str | Path) -> FloatArray:
    """Return the configurations as actions."""
    rows = []
    for scheduler, *groups in configurations:
        first, second, _ = np.array(groups) / sum(groups)
        contrasts = [float(scheduler == 1), float(scheduler == 2)]
        rows.append([*contrasts, first, second, first**2, second**2, first * second])
    try:
        return whitened(csr_array(np.array(rows)), len(rows[0]) + 1, longest=1.0)
    except InvalidValue:
        given = f"{path} with {len(configurations)} configurations"
        raise InvalidValue("data", given, "all three schedulers, each with at least six splits") from None


def _label(configuration: Configuration) -> str:
    """Return a description of a configuration."""
    scheduler, *groups = configuration
    return f"{SCHEDULERS[scheduler]}, split {'/'.join(map(str, groups))}"
