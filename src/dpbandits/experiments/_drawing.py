"""Drawing of panels. Matplotlib is an optional dependency and is imported only when needed."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._plots import pyplot, tidy
from dpbandits.experiments._findings import Curve, Panel

_PANEL_SIZE = (6.0, 4.2)  # inches


def draw(panels: Sequence[Panel]) -> dict[str, bytes]:
    """Draw panels as one figure.

    Args:
        panels: The panels.

    Returns:
        The figure as `png` and as `svg`. Equal panels give equal bytes.
    """
    plt = pyplot()
    columns = 1 if len(panels) == 1 else 2
    rows = math.ceil(len(panels) / columns)
    size = (_PANEL_SIZE[0] * columns, _PANEL_SIZE[1] * rows)
    # A fixed salt and no date: otherwise every drawing would be a different file.
    with plt.rc_context({"svg.hashsalt": "dpbandits"}):
        figure, frames = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        for axes, panel in zip(frames.flat, panels, strict=False):
            _draw_panel(axes, panel)
        for axes in frames.flat[len(panels) :]:
            axes.set_axis_off()
        files = {kind: io.BytesIO() for kind in ("png", "svg")}
        figure.savefig(files["png"], format="png", dpi=150, metadata={"Software": None})
        figure.savefig(files["svg"], format="svg", metadata={"Date": None})
        plt.close(figure)
    return {kind: file.getvalue() for kind, file in files.items()}


def _draw_panel(axes: Any, panel: Panel) -> None:
    for curve in panel.curves:
        _draw_curve(axes, curve, logarithmic=panel.y_scale == "log")
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, xscale=panel.x_scale, yscale=panel.y_scale)
    if panel.y_scale == "linear":
        axes.set_ylim(0, None)
    axes.set_title(panel.title, loc="left", fontsize=11)
    tidy(axes)
    axes.legend(framealpha=0.85, edgecolor="none", fontsize=8.5)


def _draw_curve(axes: Any, curve: Curve, *, logarithmic: bool) -> None:
    few = len(curve.x) <= 12
    # Markers show where there are measurements; theoretical curves have none.
    marker = "o" if few and curve.deviation is not None else None
    axes.plot(
        curve.x,
        curve.mean,
        curve.dashes,
        color=curve.colour,
        label=curve.label if curve.in_legend else None,
        marker=marker,
        markersize=4,
        # If curves coincide, the gaps of a dashed line show the solid one below it.
        zorder=2 if curve.dashes == "-" else 3,
    )
    if curve.deviation is None:
        return
    mean, spread = np.array(curve.mean), np.array(curve.deviation)
    # A logarithmic axis has no zero: the band ends at a tenth of the mean.
    floor = mean / 10 if logarithmic else np.zeros_like(mean)
    lower = np.maximum(mean - spread, floor)
    axes.fill_between(curve.x, lower, mean + spread, color=curve.colour, alpha=0.15, lw=0)
