"""Figure 2b: per-round regret against time, in all trust models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpbandits.experiments.curves import over_time, regret_cells
from dpbandits.experiments.experiment import Experiment, Results, Scale, Work
from dpbandits.experiments.findings import AGREES, DIFFERS, Cell, Check, Findings, Panel, Table
from dpbandits.experiments.models import (
    COLOURS,
    NAMES,
    NO_ELIMINATION,
    PRESETS,
    PRIVATE,
    dashes,
    shown_delta,
    survived,
    true_delta,
    without_privacy,
)
from dpbandits.experiments.statistics import all_hold, below, regrets
from dpbandits.simulation import Simulated

EPSILON = 10.0
DELTAS = (0.25, 0.1)
CLOSE = 1.4  # × DPE


def models(preset: str, delta: float, runs: int) -> dict[str, Work]:
    """One panel: each trust model's work."""
    found = {"none": without_privacy(preset, runs)}
    for trust in PRIVATE:
        setting = replace(PRESETS[preset], trust=trust, epsilon=EPSILON, delta=delta)
        label = f"{preset} {NAMES[trust]} δ={delta:g}"
        found[trust] = Work(label=label, job=Simulated(setting=setting), runs=runs)
    return found


def works(scale: Scale) -> list[Work]:
    """Every curve."""
    return [
        work for preset in PRESETS for delta in DELTAS for work in models(preset, delta, scale.runs).values()
    ]


def examine(results: Results, scale: Scale) -> Findings:
    """A panel for each preset and δ."""
    panels, rows, checks = list[Panel](), list[tuple[Cell, ...]](), list[Check]()
    for delta in DELTAS:
        for preset in PRESETS:
            found = models(preset, delta, scale.runs)
            runs = {trust: results.of(work) for trust, work in found.items()}
            panels.append(_panel(runs, preset, delta))
            rows += _rows(runs, preset, delta)
            checks += _checks(runs, preset, delta, scale)
    columns = ("preset", "δ asked", "model", "true δ", "regret", "standard deviation", "× DPE", "survived")
    table = Table(name="regret", title="Regret after 10⁶ rounds", columns=columns, rows=tuple(rows))
    return Findings(tables=(table,), panels=tuple(panels), checks=tuple(checks))


def _panel(runs: dict[str, list[Any]], preset: str, delta: float) -> Panel:
    curves = [
        over_time(
            _label(trust, own),
            own,
            PRESETS[preset].horizon,
            per_round=True,
            colour=COLOURS[trust],
            dashes=dashes(trust),
        )
        for trust, own in runs.items()
    ]
    return Panel(
        title=f"{preset}, ({EPSILON:g}, {delta:g}) asked, {len(runs['none'])} runs",
        x_label="round t",
        y_label="regret per round, R(t)/t",
        x_scale="log",
        curves=tuple(curves),
    )


def _label(trust: str, runs: list[Any]) -> str:
    delta = true_delta(runs)
    return f"{NAMES[trust]}, no privacy" if delta is None else f"{NAMES[trust]}, true δ {shown_delta(delta)}"


def _rows(runs: dict[str, list[Any]], preset: str, delta: float) -> list[tuple[Cell, ...]]:
    plain = float(regrets(runs["none"]).mean())
    return [
        (
            preset,
            delta,
            NAMES[trust],
            true_delta(own),
            *regret_cells(own),
            float(regrets(own).mean()) / plain,
            survived(own),
        )
        for trust, own in runs.items()
    ]


def _checks(runs: dict[str, list[Any]], preset: str, delta: float, scale: Scale) -> list[Check]:
    regret = {trust: regrets(own) for trust, own in runs.items()}
    ratio = {trust: float(values.mean() / regret["none"].mean()) for trust, values in regret.items()}
    why = NO_ELIMINATION if preset == "paper" else ""
    most = all_hold([below(regret[trust], regret["local"]) for trust in ("none", "central", "shuffle")])
    shown = ", ".join(f"{NAMES[trust]} {values.mean():,.0f}" for trust, values in regret.items())
    close = max(ratio["central"], ratio["shuffle"]) <= CLOSE
    ratios = f"CDP-DPE {ratio['central']:.2f} ×, SDP-DPE {ratio['shuffle']:.2f} × DPE"
    return [
        scale.check(f"δ = {delta:g}: LDP-DPE has the largest regret", most, shown, why=why, scope=preset),
        scale.check(
            f"δ = {delta:g}: CDP-DPE and SDP-DPE are very close to DPE (within {CLOSE:g} ×)",
            close,
            ratios,
            why=why,
            scope=preset,
        ),
        _privacy_check(runs, preset, delta),
    ]


def _privacy_check(runs: dict[str, list[Any]], preset: str, delta: float) -> Check:
    """Not an average: every run's guarantee is computed, so one run would do."""
    deltas = {NAMES[trust]: true_delta(runs[trust]) or 0.0 for trust in PRIVATE}
    holds = max(deltas.values()) <= delta * (1 + 1e-9)
    return Check(
        statement=f"({EPSILON:g}, {delta:g})-differential privacy holds in every model",
        verdict=AGREES if holds else DIFFERS,
        found="true δ: " + ", ".join(f"{name} {value:.3g}" for name, value in deltas.items()),
        why="" if holds else "The classical formula of the Gaussian mechanism is proved for ε < 1 only.",
        scope=preset,
    )


EXPERIMENT = Experiment(
    name="figure-2b",
    title="Figure 2b: regret per round against time",
    statement=(
        "At ε = 10 the local model has the largest regret per round, while the central and the shuffle "
        "model come very close to DPE, which protects nobody: privacy is almost free there."
    ),
    choices=(
        "δ = 0.25 and δ = 0.1: the paper's text has the first, its caption the second.",
        "B = 1, θ* on the unit sphere; all models see the same instances.",
        "“Very close” is taken as within 1.4 times the regret of DPE.",
    ),
    works=works,
    examine=examine,
)
