"""The plot of a result. It is imported only when a plot is wanted, because matplotlib is optional."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpbandits._checks import whole
from dpbandits._plots import ACCENT, SECOND, SOFT, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpbandits.choosing._found import Found


def draw(found: Found, most: int) -> Figure:
    """Draw the interval of each of the first options, the best on top.

    The best option is blue, and the one in use today is brown, as on the dashboard.

    Args:
        found: The result.
        most: How many options are drawn.
    """
    shown = found.options[: whole(1, most=most)]
    figure, axes = new_figure(7.0, 1.0 + 0.3 * len(shown))
    colours = {found.current: SECOND, found.best: ACCENT}
    for place, one in enumerate(shown):
        colour = colours.get(one.option, SOFT)
        axes.plot([one.low, one.high], [place, place], color=colour, linewidth=2.5, solid_capstyle="round")
        axes.plot([one.estimate], [place], "o", color=colour)
    # A dollar sign would start a formula.
    axes.set_yticks(range(len(shown)), [one.option.replace("$", r"\$") for one in shown])
    axes.invert_yaxis()
    axes.set_xlabel(f"mean reward, with intervals at level {found.level:g}")
    return figure
