"""Regret per round against time in all trust models, for Figure 2b and the experiment on ranking data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpbandits.experiments._curves import over_time, regret_cells
from dpbandits.experiments._experiment import Results, Scale, Work
from dpbandits.experiments._findings import AGREES, DIFFERS, Cell, Check, Findings, Panel, Table
from dpbandits.experiments._models import (
    CLOSE,
    COLOURS,
    NAMES,
    NO_ELIMINATION,
    PRIVATE,
    dashes,
    in_trust,
    shown_delta,
    survived,
    true_delta,
)
from dpbandits.experiments._statistics import all_hold, below, regrets
from dpbandits.simulation import Setting, Simulated

_COLUMNS = ("preset", "requested δ", "model", "true δ", "regret", "standard deviation", "× DPE", "survived")

Runs = dict[str, list[Any]]

_FIRST_PHASES = (
    "The first phases ask few clients. There, privacy noise, which decreases with the size of the cohort, "
    "outweighs the differences between clients, which decrease with its square root. So the first actions "
    "are dropped some phases later. The additional regret is of lower order in T, but still visible at "
    "T = 10⁶."
)


@dataclass(frozen=True, kw_only=True)
class AgainstTime:
    """One panel per preset and δ, with one curve per trust model."""

    presets: dict[str, Setting]
    epsilon: float
    deltas: tuple[float, ...]
    on: str = ""  # added to the preset in labels

    def models(self, preset: str, delta: float, runs: int) -> dict[str, Work]:
        """Return the work of each trust model in one panel."""
        base, label = self.presets[preset], f"{preset}{self.on}"
        found = {"none": Work(label=f"{label} DPE", job=Simulated(setting=base), runs=runs)}
        for trust in PRIVATE:
            setting = in_trust(base, trust, epsilon=self.epsilon, delta=delta)
            name = f"{label} {NAMES[trust]} δ={delta:g}"
            found[trust] = Work(label=name, job=Simulated(setting=setting), runs=runs)
        return found

    def works(self, scale: Scale) -> list[Work]:
        """Return every curve."""
        return [
            work
            for preset in self.presets
            for delta in self.deltas
            for work in self.models(preset, delta, scale.runs).values()
        ]

    def examine(self, results: Results, scale: Scale) -> Findings:
        """Return the panels, the final values, and checks of the paper's orders."""
        panels, rows, checks = list[Panel](), list[tuple[Cell, ...]](), list[Check]()
        for delta in self.deltas:
            for preset in self.presets:
                found = self.models(preset, delta, scale.runs)
                runs = {trust: results.of(work) for trust, work in found.items()}
                panels.append(self._panel(runs, preset, delta))
                rows += _rows(runs, preset, delta)
                checks += _order_checks(runs, preset, delta, scale)
                checks.append(_privacy_check(runs, preset, self.epsilon, delta))
        table = Table(name="regret", title="Regret after 10⁶ rounds", columns=_COLUMNS, rows=tuple(rows))
        return Findings(tables=(table,), panels=tuple(panels), checks=tuple(checks))

    def _panel(self, runs: Runs, preset: str, delta: float) -> Panel:
        horizon = self.presets[preset].horizon
        curves = [
            over_time(
                _label(trust, own), own, horizon, per_round=True, colour=COLOURS[trust], dashes=dashes(trust)
            )
            for trust, own in runs.items()
        ]
        return Panel(
            title=f"{preset}{self.on}, requested ({self.epsilon:g}, {delta:g}), {len(runs['none'])} runs",
            x_label="round t",
            y_label="regret per round, R(t)/t",
            x_scale="log",
            curves=tuple(curves),
        )


def _label(trust: str, runs: list[Any]) -> str:
    delta = true_delta(runs)
    return f"{NAMES[trust]}, no privacy" if delta is None else f"{NAMES[trust]}, true δ {shown_delta(delta)}"


def _rows(runs: Runs, preset: str, delta: float) -> list[tuple[Cell, ...]]:
    plain = float(regrets(runs["none"]).mean())
    rows = list[tuple[Cell, ...]]()
    for trust, own in runs.items():
        mean, deviation = regret_cells(own)
        stated = (preset, delta, NAMES[trust], true_delta(own))
        rows.append((*stated, mean, deviation, mean / plain, survived(own)))
    return rows


def _order_checks(runs: Runs, preset: str, delta: float, scale: Scale) -> list[Check]:
    regret = {trust: regrets(own) for trust, own in runs.items()}
    ratio = {trust: float(values.mean() / regret["none"].mean()) for trust, values in regret.items()}
    why = NO_ELIMINATION if preset == "paper" else _FIRST_PHASES
    most = all_hold([below(regret[trust], regret["local"]) for trust in ("none", "central", "shuffle")])
    shown = ", ".join(f"{NAMES[trust]} {values.mean():,.0f}" for trust, values in regret.items())
    close = max(ratio["central"], ratio["shuffle"]) <= CLOSE
    ratios = f"CDP-DPE {ratio['central']:.2f} ×, SDP-DPE {ratio['shuffle']:.2f} × DPE"
    statement = f"δ = {delta:g}: CDP-DPE and SDP-DPE are very close to DPE (within {CLOSE:g} ×)"
    return [
        scale.check(f"δ = {delta:g}: LDP-DPE has the largest regret", most, shown, why=why, scope=preset),
        scale.check(statement, close, ratios, why=why, scope=preset),
    ]


def _privacy_check(runs: Runs, preset: str, epsilon: float, delta: float) -> Check:
    """Check the guarantee. Each run computes its own, which is not an average, so one run suffices."""
    deltas = {NAMES[trust]: true_delta(runs[trust]) or 0.0 for trust in PRIVATE}
    holds = max(deltas.values()) <= delta * (1 + 1e-9)
    return Check(
        statement=f"({epsilon:g}, {delta:g})-differential privacy holds in every model",
        verdict=AGREES if holds else DIFFERS,
        found="true δ: " + ", ".join(f"{name} {shown_delta(value)}" for name, value in deltas.items()),
        why="" if holds else "The classical formula of the Gaussian mechanism is proved for ε < 1 only.",
        scope=preset,
    )
