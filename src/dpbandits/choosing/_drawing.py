"""The plot of a result. matplotlib is optional, so this module is imported only when a plot is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from dpbandits._checks import whole

if TYPE_CHECKING:
    from dpbandits.choosing._found import Found


def draw(found: Found, most: int) -> Figure:
    """Draw the interval of each of the first options, the best on top.

    Args:
        found: The result.
        most: How many options are drawn.
    """
    shown = found.options[: whole(1, most=most)]
    figure = Figure(figsize=(7.0, 1.0 + 0.3 * len(shown)), layout="constrained")
    axes = figure.subplots()
    for place, one in enumerate(shown):
        colour = "tab:green" if one.option == found.best else "tab:gray"
        axes.plot([one.low, one.high], [place, place], color=colour)
        axes.plot([one.estimate], [place], "o", color=colour)
    # A dollar sign would start a formula.
    axes.set_yticks(range(len(shown)), [one.option.replace("$", r"\$") for one in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"mean reward, with intervals at level {found.level:g}")
    return figure
