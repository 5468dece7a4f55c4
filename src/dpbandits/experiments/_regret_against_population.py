"""The appendix's figure of regret against the number of users N."""

from __future__ import annotations

from typing import Any

from dpbandits.experiments._curves import moments, regret_cells
from dpbandits.experiments._experiment import Experiment, Results, Scale, Work
from dpbandits.experiments._findings import Cell, Check, Findings, Panel, Table
from dpbandits.experiments._models import COLOURS, PRESETS
from dpbandits.experiments._statistics import regrets
from dpbandits.simulation import Simulated

SIZES = (100, 1_000, 3_000, 10_000, 30_000, 60_000, 100_000, 1_000_000)
ALMOST = 1.1  # × the regret of the largest population
ENOUGH = PRESETS["tight"].exponential().participants(PRESETS["tight"].horizon)


def point(preset: str, size: int, runs: int) -> Work:
    """Return the work of DPE with `size` users."""
    setting = PRESETS[preset].changed(population=size, when_clients_run_out="stop")
    return Work(label=f"{preset} DPE N={size}", job=Simulated(setting=setting), runs=runs)


def works(scale: Scale) -> list[Work]:
    """Return every point."""
    return [point(preset, size, scale.runs) for preset in PRESETS for size in SIZES]


def examine(results: Results, scale: Scale) -> Findings:
    """Return one panel with both presets."""
    found = {
        preset: {size: results.of(point(preset, size, scale.runs)) for size in SIZES} for preset in PRESETS
    }
    rows: list[tuple[Cell, ...]] = [
        (preset, size, *regret_cells(runs), max(run.participants for run in runs))
        for preset, own in found.items()
        for size, runs in own.items()
    ]
    columns = ("preset", "N", "regret", "standard deviation", "participants")
    table = Table(name="regret", title="Regret after 10⁶ rounds", columns=columns, rows=tuple(rows))
    checks = tuple(_check(preset, own, scale) for preset, own in found.items())
    return Findings(tables=(table,), panels=(_panel(found, scale),), checks=checks)


def _panel(found: dict[str, dict[int, list[Any]]], scale: Scale) -> Panel:
    curves = tuple(
        moments(preset, SIZES, [regrets(runs) for runs in own.values()], colour=colour)
        for (preset, own), colour in zip(found.items(), (COLOURS["central"], COLOURS["local"]), strict=True)
    )
    return Panel(
        title=f"DPE, no privacy, {scale.runs} runs",
        x_label="users N",
        y_label="regret after 10⁶ rounds",
        x_scale="log",
        y_scale="log",
        curves=curves,
    )


def _check(preset: str, found: dict[int, list[Any]], scale: Scale) -> Check:
    means = {size: float(regrets(runs).mean()) for size, runs in found.items()}
    ratios = {size: mean / means[SIZES[-1]] for size, mean in means.items()}
    settled = [size for size in SIZES if all(_almost(ratios[s]) for s in SIZES if s >= size)]
    shown = ", ".join(f"N = {size:,}: {ratio:.2f} ×" for size, ratio in ratios.items())
    return scale.check(
        f"the regret is almost the same (within {ALMOST:g} ×) once N is at least the {ENOUGH:,} users that "
        "are asked",
        all(size in settled for size in SIZES if size >= ENOUGH),
        f"from N = {settled[0]:,} on; {shown}",
        scope=preset,
    )


def _almost(ratio: float) -> bool:
    return 1 / ALMOST <= ratio <= ALMOST


EXPERIMENT = Experiment(
    name="regret-against-population",
    title="Appendix: regret against the number of users",
    statement="Once there are enough users, their number N has almost no influence on the regret of DPE.",
    choices=(
        f"N = {', '.join(f'{size:,}' for size in SIZES)}; the paper does not give its grid.",
        "No user is asked twice. If the next cohort is larger than the number of remaining users, no more "
        "users are asked and the best guess is played to the end; the paper does not say what happens "
        "then. So the regret with a few thousand users may be smaller than with many: by then the guess is "
        "often right, and no other action is tried.",
    ),
    works=works,
    examine=examine,
)
