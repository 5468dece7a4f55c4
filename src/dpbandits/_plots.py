"""The style of all plots: colours and axes. Matplotlib is imported only when a figure is created.

The colours are those of the dashboard in light mode (service/dashboard/static/app.css), so that plots and the
dashboard look the same. Trust models have colours that colour-blind readers can distinguish (Okabe and Ito).
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from dpbandits._checks import installed
from dpbandits.errors import InvalidValue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#16202b"  # text
SOFT = "#55616e"  # axes and less important items
LINE = "#dde3ea"  # grid and borders
TINT = "#eaf2fb"  # background of highlighted items
ACCENT = "#0b62b4"  # the best option, or the main subject of a plot
SECOND = "#a94f00"  # the option in use today, or the subject of a comparison
THIRD = "#6a3fa0"
GOOD = "#1b7a3d"
BAD = "#b3261e"

TRUST_COLOURS = {"none": "#000000", "central": "#0072B2", "shuffle": "#009E73", "local": "#D55E00"}


def new_figure(width: float, height: float, *, columns: int = 1) -> tuple[Figure, Any]:
    """Return an empty figure in the style of the library, and its axes.

    Args:
        width: The width in inches.
        height: The height in inches.
        columns: The number of axes, which are placed in one row.

    Returns:
        The figure and its axes: a single object, or an array if there are several columns.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    axes = figure.subplots(1, columns)
    for one in axes.flat if columns > 1 else (axes,):
        tidy(one)
    return figure, axes


def tidy(axes: Any) -> None:
    """Give axes the style of the library: lines at the left and bottom only, and a faint grid.

    Args:
        axes: The axes of a matplotlib figure.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINE)
    axes.tick_params(colors=SOFT, labelcolor=INK, length=3)
    axes.grid(color=LINE, linewidth=0.8)
    axes.set_axisbelow(True)


def check_matplotlib(**wanted: object) -> None:
    """Raise an error if matplotlib is missing, before long work starts.

    Args:
        **wanted: The option that needs matplotlib, for example `out="figure.png"`.

    Raises:
        InvalidValue: If matplotlib is not installed.
    """
    if not installed("matplotlib"):
        ((field, value),) = wanted.items()
        remedy = "an installed matplotlib: pip install '.[plot]' in a clone of dpbandits"
        raise InvalidValue(field, value, remedy)


def pyplot() -> ModuleType:
    """Return matplotlib's pyplot, set up to draw into files."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt
