"""How certain an attacker can become, for each belief before the study and each ε (δ = 0)."""

from __future__ import annotations

import numpy as np

from docs.figures._saving import save
from dpbandits._plots import ACCENT, BAD, SECOND, SOFT, THIRD, new_figure

COLOURS = {0.1: SOFT, 0.5: THIRD, 1.0: ACCENT, 3.0: SECOND, 10.0: BAD}


def draw() -> None:
    """Draw the picture."""
    figure, axes = new_figure(7.0, 4.0)
    before = np.linspace(0.001, 0.999, 999)
    for epsilon, colour in COLOURS.items():
        odds = before / (1 - before) * np.exp(epsilon)
        axes.plot(100 * before, 100 * odds / (1 + odds), color=colour, linewidth=2, label=f"ε = {epsilon:g}")
    axes.plot([0, 100], [0, 100], ":", color=SOFT, label="the study reveals nothing")
    axes.set(xlabel="belief before the study, in %", ylabel="highest belief after the study, in %")
    axes.set(xlim=(0, 100), ylim=(0, 101))
    axes.legend(frameon=False, loc="lower right")
    save(figure, "epsilon-odds.png")


if __name__ == "__main__":
    draw()
