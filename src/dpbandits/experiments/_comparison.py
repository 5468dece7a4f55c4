"""The algorithms that Figure 3 and Table 2 compare. The horizon follows from the participants in Table 2."""

from __future__ import annotations

from typing import Any

from dpbandits.experiments._experiment import Results, Scale, Work
from dpbandits.experiments._jobs import LinUCB
from dpbandits.experiments._models import PRESETS
from dpbandits.simulation import Setting, Simulated

HORIZON = 50_000
ALPHAS = (0.5, 0.6, 0.7, 0.8, 0.9)


def algorithms(preset: str, runs: int) -> dict[str, Work]:
    """Return the work of each algorithm by name. LinUCB has no presets, so it is the same in both."""
    base = PRESETS[preset].changed(horizon=HORIZON)
    found = dict[str, Work]()
    for alpha in ALPHAS:
        job = Simulated(setting=base.changed(alpha=alpha))
        found[f"DPE α = {alpha:g}"] = Work(label=f"{preset} DPE α={alpha:g}", job=job, runs=runs)
    found["LinUCB"] = Work(label="LinUCB", job=LinUCB(setting=Setting.paper(horizon=HORIZON)), runs=runs)
    one_a_round = base.changed(algorithm="pe")
    found["PE"] = Work(label=f"{preset} PE", job=Simulated(setting=one_a_round), runs=runs)
    return found


def works(scale: Scale) -> list[Work]:
    """Return the work of both presets."""
    return [work for preset in PRESETS for work in algorithms(preset, scale.runs).values()]


def outcomes(results: Results, scale: Scale, preset: str) -> dict[str, list[Any]]:
    """Return the runs of each algorithm."""
    return {name: results.of(work) for name, work in algorithms(preset, scale.runs).items()}
