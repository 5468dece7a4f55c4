"""The plots of the command line. Matplotlib is optional, and imported only when something is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbandits._plots import TRUST_COLOURS, check_matplotlib, pyplot, tidy
from dpbandits.cli._writing import check_folder
from dpbandits.errors import InvalidValue

if TYPE_CHECKING:
    from dpbandits.cli._output import Result

_OTHER_COLOUR = "#CC79A7"  # of trust models that plugins add


def check_plot(path: str | None) -> None:
    """Check the path of `--plot` before the long work begins.

    Raises:
        InvalidValue: The path has an ending that is not accepted, its folder does not exist, or Matplotlib is
            not installed.
    """
    if path is None:
        return
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InvalidValue("plot", path, "a path that ends in .png, .svg or .pdf")
    check_folder(plot=Path(path))
    check_matplotlib(plot=path)


def plot_regret(results: Sequence[Result], path: Path) -> None:
    """Draw the regret R(t) against t on logarithmic scales: the mean over runs, and the range of all runs."""
    plt = pyplot()
    horizon = results[0].setting.horizon
    times = np.unique(np.geomspace(min(10, horizon), horizon, 400))
    figure, axes = plt.subplots(figsize=(10, 6), layout="constrained")
    ends = []
    for result in results:
        curves = np.array([run.regret_at(times) for run in result.runs])
        privacy, mean = result.setting.privacy, curves.mean(axis=0)
        colour = TRUST_COLOURS.get(privacy.trust, _OTHER_COLOUR)
        axes.plot(times, mean, color=colour, dashes=_dashes(result), lw=1.8)
        axes.fill_between(times, curves.min(axis=0), curves.max(axis=0), color=colour, alpha=0.07, lw=0)
        ends.append((float(mean[-1]), _label(result), colour))
    axes.set(xscale="log", yscale="log", xlabel="round t", ylabel="regret: reward lost up to round t")
    axes.set_xlim(times[0], horizon)
    axes.set_title(_heading(results), loc="left", fontsize=10)
    tidy(axes)
    _label_ends(axes, ends)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_curve(claimed: dict[str, float], curve: Sequence[dict[str, float]], path: Path) -> None:
    """Draw δ on a logarithmic scale against ε, with the claim as a point."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    shown = [point for point in curve if point["delta_upper"] > 0]
    epsilons = [point["epsilon"] for point in shown]
    deltas = [point["delta_upper"] for point in shown]
    axes.plot(epsilons, deltas, color=TRUST_COLOURS["central"], label="δ(ε)")
    if claimed["delta"] > 0:
        label = f"claimed: ({claimed['epsilon']:g}, {claimed['delta']:g})"
        axes.plot(claimed["epsilon"], claimed["delta"], "o", color=TRUST_COLOURS["local"], label=label)
    axes.set(yscale="log", xlabel="ε", ylabel="δ")
    tidy(axes)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def plot_plans(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw regret, participants and communication against ε, one line per schedule."""
    from dpbandits.simulation import SCHEDULES

    plt = pyplot()
    figure, panels = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    titles = {"predicted_regret": "regret", "participants": "participants", "communication": "communication"}
    for axes, (quantity, title) in zip(panels, titles.items(), strict=True):
        for schedule, colour in zip(SCHEDULES, TRUST_COLOURS.values(), strict=False):
            points = [row for row in rows if row["schedule"] == schedule and row[quantity] is not None]
            epsilons = [row["epsilon"] or 0 for row in points]
            axes.plot(epsilons, [row[quantity] for row in points], "o-", color=colour, label=schedule)
            if quantity == "predicted_regret":
                simulated = [row["simulated_regret"] for row in points]
                if all(value is not None for value in simulated):
                    axes.plot(epsilons, simulated, "x:", color=colour)
        shown = any(row[quantity] for row in rows)  # without simulated runs the communication is unknown
        scale = "log" if all(row["epsilon"] for row in rows) else "linear"
        axes.set(xscale=scale if shown else "linear", yscale="log" if shown else "linear", xlabel="ε")
        axes.set_title(title, loc="left")
        tidy(axes)
    panels[0].set_title("regret (○ predicted, × simulated)", loc="left")
    panels[0].legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _heading(results: Sequence[Result]) -> str:
    first, presets = results[0], {result.setting.privacy.preset for result in results}
    names = {"tight": "solid and dashed: dpbandits", "paper": "dotted: the paper's constants as printed"}
    lines = "; ".join(names[preset] for preset in ("tight", "paper") if preset in presets)
    actions = first.runs[0].phases[0].actions_before
    return (
        f"Reward lost while learning which of {actions:,} actions is best ({lines})\n"
        f"At the ends: trust model, guarantee that holds, regret after {first.setting.horizon:,} rounds "
        f"(mean of {len(first.runs)} runs; shaded: all runs)"
    )


def _dashes(result: Result) -> tuple[float, ...]:
    """Solid lines for preset tight, dots for paper. Shuffle has gaps, because it often hides central."""
    privacy = result.setting.privacy
    shuffled = privacy.trust_model.shuffler
    if privacy.preset == "paper":
        return (1, 4) if shuffled else (1, 1.5)
    return (7, 3) if shuffled else ()


def _label(result: Result) -> str:
    """The trust model, the regret at the end, and the guarantee that holds."""
    stated, regret = result.guarantee, float(np.mean([run.regret for run in result.runs]))
    whose = "paper, " if result.setting.privacy.preset == "paper" else ""
    if stated is None:
        return f"{whose}no privacy: {regret:,.0f}"
    return f"{whose}{stated.trust} ({stated.epsilon:g}, {stated.delta:.2g})-DP: {regret:,.0f}"


def _label_ends(axes: Any, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write each line's label at its right end, spread out where labels would overlap."""
    low, high = (math.log10(limit) for limit in axes.get_ylim())
    ordered = sorted(ends)
    heights = [(math.log10(max(value, 10**low)) - low) / (high - low) for value, _, _ in ordered]
    for (value, label, colour), height in zip(ordered, _spread(heights, 0.045), strict=True):
        axes.annotate(
            label,
            xy=(1, max(value, 10**low)),
            xycoords=("axes fraction", "data"),
            xytext=(1.03, height),
            textcoords="axes fraction",
            color=colour,
            va="center",
            fontsize=9,
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.6, "relpos": (0, 0.5), "shrinkB": 0},
        )


def _spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels so that they do not overlap.

    Args:
        heights: The wanted heights, ascending.
        gap: The least distance between two labels.

    Returns:
        The heights of the labels. Labels that would overlap are centred around their mean height.
    """
    groups: list[list[float]] = []
    for height in heights:
        groups.append([height])
        while len(groups) > 1 and _bottom(groups[-1], gap) - _bottom(groups[-2], gap) < len(groups[-2]) * gap:
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_bottom(group, gap) + place * gap for group in groups for place in range(len(group))]


def _bottom(group: Sequence[float], gap: float) -> float:
    return sum(group) / len(group) - (len(group) - 1) / 2 * gap
