"""Figure 3: the regret of DPE for five α against LinUCB and PE."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from dpbandits.experiments._comparison import ALPHAS, HORIZON, outcomes, works
from dpbandits.experiments._curves import over_time, regret_cells
from dpbandits.experiments._experiment import Experiment, Results, Scale
from dpbandits.experiments._findings import Check, Curve, Findings, Panel, Table
from dpbandits.experiments._models import CLOSE, PRESETS, SERIES
from dpbandits.experiments._statistics import all_hold, below, regrets


def examine(results: Results, scale: Scale) -> Findings:
    """Return one panel per preset."""
    found = {preset: outcomes(results, scale, preset) for preset in PRESETS}
    rows = [
        (preset, name, *regret_cells(runs)) for preset, own in found.items() for name, runs in own.items()
    ]
    columns = ("preset", "algorithm", "regret", "standard deviation")
    table = Table(name="regret", title=f"Regret after {HORIZON:,} rounds", columns=columns, rows=tuple(rows))
    panels = tuple(_panel(preset, own) for preset, own in found.items())
    checks = [check for preset, own in found.items() for check in _checks(preset, own, scale)]
    return Findings(tables=(table,), panels=panels, checks=tuple(checks))


def _panel(preset: str, found: dict[str, list[Any]]) -> Panel:
    """Draw the regret of each algorithm over time."""
    curves = list[Curve]()
    for (name, runs), colour in zip(found.items(), SERIES, strict=False):
        dashes = "-" if name.startswith("DPE") else "--"
        curves.append(over_time(name, runs, HORIZON, per_round=False, colour=colour, dashes=dashes))
    return Panel(
        title=f"{preset}, no privacy, {len(found['LinUCB'])} runs",
        x_label="round t",
        y_label="regret R(t)",
        curves=tuple(curves),
    )


def _checks(preset: str, found: dict[str, list[Any]], scale: Scale) -> list[Check]:
    """Check the order of the α, and how close DPE comes to the others."""
    regret = {name: regrets(runs) for name, runs in found.items()}
    growing = [regret[f"DPE α = {alpha:g}"] for alpha in ALPHAS]
    falls = all_hold([below(after, before) for before, after in pairwise(growing)])
    means = ", ".join(f"{name} {values.mean():,.0f}" for name, values in regret.items())
    others = ("LinUCB", "PE")
    least = min(values.mean() for values in growing)
    close = all(least <= CLOSE * regret[name].mean() for name in others)
    statement = f"with a suitable α the regret of DPE is close to that of {' and '.join(others)}"
    ratios = ", ".join(f"{least / regret[name].mean():.2f} × {name}" for name in others)
    return [
        scale.check("the regret of DPE falls as α grows", falls, means, scope=preset),
        scale.check(f"{statement} (at most {CLOSE:g} ×)", close, f"the best α has {ratios}", scope=preset),
    ]


EXPERIMENT = Experiment(
    name="figure-3",
    title="Figure 3: LinUCB, PE and DPE",
    statement=(
        "Without privacy and with a suitable α, DPE comes close to the regret of LinUCB and of phased "
        "elimination, which ask a new client in each round."
    ),
    choices=(
        f"T = {HORIZON:,}: the number of participants in Table 2 corresponds to this horizon.",
        "LinUCB with λ = 1 and the radius √λ + √((1 + σ²)(2 log T + d log(1 + t/(λd)))); the paper gives "
        "neither.",
        f"LinUCB is the same in both panels. “Close” means at most {CLOSE:g} times the regret.",
    ),
    works=works,
    examine=examine,
)
