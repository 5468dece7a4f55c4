"""Growth of regret and communication with T, compared with bounds, for Tables 1 and 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.experiments._curves import moments
from dpbandits.experiments._experiment import Results, Scale, Work
from dpbandits.experiments._findings import Cell, Check, Curve, Panel, Table
from dpbandits.experiments._models import COLOURS, NO_ELIMINATION, dashes, in_trust
from dpbandits.experiments._statistics import fitted_power, mean_and_deviation, power_of, resolved_above
from dpbandits.simulation import Setting, Simulated


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A quantity that grows with T.

    Attributes:
        name: Its name.
        of_run: Returns its value in a run.
        bound: Returns the paper's bound for a setting.
        power: Returns the power of T in the paper's table.
    """

    name: str
    of_run: Callable[[Any], float]
    bound: Callable[[Setting], float]
    power: Callable[[Setting], float]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Settings over several horizons, for each preset and trust model.

    Attributes:
        names: The algorithm of each trust model.
        presets: The setting of each preset.
        horizons: The horizons.
    """

    names: dict[str, str]
    presets: dict[str, Setting]
    horizons: tuple[int, ...]

    def over(self, scale: Scale) -> tuple[int, ...]:
        """Return the horizons; a quick set omits the longest."""
        return self.horizons[:-1] if scale.quick else self.horizons

    def work(self, preset: str, trust: str, horizon: int, runs: int) -> Work:
        """Return one point."""
        setting = in_trust(self.presets[preset], trust, horizon=horizon)
        label = f"{preset} {self.names[trust]} T={horizon:.0e}"
        return Work(label=label, job=Simulated(setting=setting), runs=runs)

    def works(self, scale: Scale) -> list[Work]:
        """Return every point."""
        return [
            self.work(preset, trust, horizon, scale.runs)
            for preset in self.presets
            for trust in self.names
            for horizon in self.over(scale)
        ]

    def series(self, results: Results, scale: Scale, quantity: Quantity) -> list[Series]:
        """Return the quantity over the horizons, for each preset and trust model."""
        each = [(preset, trust) for preset in self.presets for trust in self.names]
        return [self._series(results, scale, quantity, preset, trust) for preset, trust in each]

    def _series(self, results: Results, scale: Scale, quantity: Quantity, preset: str, trust: str) -> Series:
        horizons = self.over(scale)
        settings = [in_trust(self.presets[preset], trust, horizon=horizon) for horizon in horizons]
        found = [results.of(self.work(preset, trust, horizon, scale.runs)) for horizon in horizons]
        return Series(
            preset=preset,
            trust=trust,
            name=self.names[trust],
            horizons=horizons,
            values=[np.array([quantity.of_run(run) for run in runs], dtype=np.float64) for runs in found],
            bounds=[quantity.bound(setting) for setting in settings],
            power=quantity.power(settings[0]),
        )


@dataclass(frozen=True, kw_only=True)
class Series:
    """One quantity of one algorithm over the horizons."""

    preset: str
    trust: str
    name: str
    horizons: tuple[int, ...]
    values: list[FloatArray]
    bounds: list[float]
    power: float

    @property
    def fitted(self) -> tuple[float, float]:
        """The power of T that fits the means, and its standard error."""
        return fitted_power(self.horizons, self.values)

    @property
    def worst(self) -> float:
        """The largest ratio of a mean to its bound."""
        pairs = zip(self.values, self.bounds, strict=True)
        return max(float(values.mean()) / bound for values, bound in pairs)


def measured_table(series: list[Series], quantity: Quantity, *, vacuous: bool) -> Table:
    """Return every mean with its bound.

    `vacuous` adds a column that says whether the bound exceeds 2T. Regret cannot exceed 2T.
    """
    rows: list[tuple[Cell, ...]] = []
    for own in series:
        for horizon, values, bound in zip(own.horizons, own.values, own.bounds, strict=True):
            mean, deviation = mean_and_deviation(values)
            says = ("vacuous: above 2T" if bound > 2 * horizon else "informative",) if vacuous else ()
            rows.append((own.preset, own.name, horizon, mean, deviation, bound, mean / bound, *says))
    columns = ("preset", "algorithm", "T", "measured", "standard deviation", "bound", "measured ÷ bound")
    says_so = ("the bound is",) if vacuous else ()
    title = f"{quantity.name.capitalize()}, measured and bounded"
    return Table(name=quantity.name, title=title, columns=(*columns, *says_so), rows=tuple(rows))


def power_table(series: list[Series], quantity: Quantity) -> Table:
    """Return the powers of T: in the paper, of the bound with its constants, and measured."""
    rows = tuple(
        (own.preset, own.name, own.power, power_of(own.horizons, own.bounds), *own.fitted) for own in series
    )
    columns = ("preset", "algorithm", "printed", "bound, fitted", "measured", "standard error")
    title = f"The power of T with which {quantity.name} grows"
    return Table(name=f"{quantity.name}-growth", title=title, columns=columns, rows=rows)


def growth_panel(series: list[Series], quantity: Quantity, preset: str) -> Panel:
    """Return measured means with bands, and dotted bounds."""
    curves = list[Curve]()
    for own in (own for own in series if own.preset == preset):
        colour = COLOURS[own.trust]
        curves.append(moments(own.name, own.horizons, own.values, colour=colour, dashes=dashes(own.trust)))
        label, x, mean = f"{own.name}, bound", tuple(map(float, own.horizons)), tuple(own.bounds)
        curves.append(Curve(label=label, x=x, mean=mean, colour=colour, dashes=":", in_legend=False))
    return Panel(
        title=f"{preset}: {quantity.name}; dotted: the bounds",
        x_label="horizon T",
        y_label=quantity.name,
        x_scale="log",
        y_scale="log",
        curves=tuple(curves),
    )


def growth_checks(series: list[Series], quantity: Quantity, scale: Scale) -> list[Check]:
    """Check that the bounds hold, and that no series grows faster than the paper's power of T."""
    checks = list[Check]()
    for preset in dict.fromkeys(own.preset for own in series):
        group = [own for own in series if own.preset == preset]
        worst = max(group, key=lambda own: own.worst)
        statement = f"{quantity.name} stays below its bound"
        found = f"at most {worst.worst:.2g} of the bound ({worst.name})"
        checks.append(scale.check(statement, worst.worst <= 1, found, scope=preset))
        checks += [_growth_check(own, quantity, scale) for own in group]
    return checks


def _growth_check(own: Series, quantity: Quantity, scale: Scale) -> Check:
    measured, error = own.fitted
    return scale.check(
        f"the {quantity.name} of {own.name} grows no faster than T^{own.power:.2g}",
        not resolved_above(measured, own.power, error),
        f"T^({measured:.2f} ± {error:.2f})",
        why=(
            f"{NO_ELIMINATION} Until actions are dropped, regret is linear in T, and the bound, far above "
            "2T, permits it."
            if own.preset == "paper"
            else "At these horizons, lower-order terms of the bound still matter, and regret is linear in T "
            "while few actions are dropped. The power in the paper applies to longer horizons."
        ),
        scope=own.preset,
    )
