"""Pictures. Matplotlib is an extra and is imported when something is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.cli._output import Result
from dpbandits.errors import InvalidValue
from dpbandits.experiments import COLOURS, check_matplotlib, dashes, pyplot

_OTHER_COLOUR = "#CC79A7"  # of a trust model that a plugin adds


def check_plot(path: str | None) -> None:
    """Fail before the long work, not after it."""
    if path is None:
        return
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidValue("plot", path, "a path that ends in .png, .svg or .pdf")
    if not Path(path).parent.is_dir():
        raise InvalidValue("plot", path, "a path in a folder that exists")
    check_matplotlib(plot=path)


def plot_regret(results: Sequence[Result], path: Path) -> None:
    """Per-round regret R(t)/t against t, the mean over runs with a band of one standard deviation."""
    plt = pyplot()
    horizon = results[0].setting.horizon
    times = np.unique(np.geomspace(min(100, horizon), horizon, 300))
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for result in results:
        curves = np.array([run.regret_at(times) / times for run in result.runs])
        mean, spread = curves.mean(axis=0), curves.std(axis=0)
        colour = COLOURS.get(result.setting.trust, _OTHER_COLOUR)
        axes.plot(times, mean, dashes(result.setting.trust), color=colour, label=_label(result))
        axes.fill_between(times, np.maximum(mean - spread, 0), mean + spread, color=colour, alpha=0.15, lw=0)
    axes.set(xscale="log", xlabel="round t", ylabel="regret per round, R(t)/t", ylim=(0, None))
    axes.set_xlim(times[0], horizon)
    axes.set_title(f"{results[0].setting.preset} preset, {len(results[0].runs)} runs", loc="left")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_curve(claimed: dict[str, float], curve: Sequence[dict[str, float]], path: Path) -> None:
    """δ against ε on a logarithmic scale, with the claim as a point."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    shown = [point for point in curve if point["delta_upper"] > 0]
    epsilons = [point["epsilon"] for point in shown]
    axes.plot(epsilons, [point["delta_upper"] for point in shown], color=COLOURS["central"], label="δ(ε)")
    if claimed["delta"] > 0:
        label = f"claimed: ({claimed['epsilon']:g}, {claimed['delta']:g})"
        axes.plot(claimed["epsilon"], claimed["delta"], "o", color=COLOURS["local"], label=label)
    axes.set(yscale="log", xlabel="ε", ylabel="δ")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_plans(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Regret, participants and communication against ε, one line for each schedule."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    titles = {"predicted_regret": "regret", "participants": "participants", "communication": "communication"}
    for axes, (quantity, title) in zip(panels, titles.items(), strict=True):
        for schedule, colour in zip(("exponential", "equal", "budgeted"), COLOURS.values(), strict=False):
            points = [row for row in rows if row["schedule"] == schedule and row[quantity] is not None]
            epsilons = [row["epsilon"] or 0 for row in points]
            axes.plot(epsilons, [row[quantity] for row in points], "o-", color=colour, label=schedule)
            if quantity == "predicted_regret":
                simulated = [row["simulated_regret"] for row in points]
                if all(value is not None for value in simulated):
                    axes.plot(epsilons, simulated, "x:", color=colour)
        shown = any(row[quantity] for row in rows)  # without simulated runs nothing is known of messages
        scale = "log" if all(row["epsilon"] for row in rows) else "linear"
        axes.set(xscale=scale if shown else "linear", yscale="log" if shown else "linear", xlabel="ε")
        axes.set_title(title, loc="left")
        axes.grid(alpha=0.25)
    panels[0].set_title("regret (○ predicted, × simulated)", loc="left")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _label(result: Result) -> str:
    if result.guarantee is None:
        return "no privacy"
    stated = result.guarantee
    return f"{stated.trust}: ({stated.epsilon:g}, {stated.delta:.3g})-DP"
