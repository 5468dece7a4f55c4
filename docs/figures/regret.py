"""Regret of every trust model and of the paper's constants: the picture that `make run` draws."""

from __future__ import annotations

from docs.figures._saving import IMAGES
from dpbandits.cli import main


def draw() -> None:
    """Run the comparison with the seeds of the command line."""
    main(["simulate", "--compare-paper", "--plot", str(IMAGES / "regret.png")])


if __name__ == "__main__":
    draw()
