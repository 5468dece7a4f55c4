"""Regret against ε and T, drawn by its benchmark. It takes about a minute of processor time."""

from __future__ import annotations

import runpy

from docs.figures._saving import IMAGES

PROGRAM = IMAGES.parents[1] / "benchmarks" / "growth.py"


def draw() -> None:
    """Measure, print both tables, and draw."""
    runpy.run_path(str(PROGRAM))["main"](["--runs", "16", "--plot", str(IMAGES / "growth.png")])


if __name__ == "__main__":
    draw()
