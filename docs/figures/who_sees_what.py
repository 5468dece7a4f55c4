"""Who sees what in each trust model, with the numbers of one client in a cohort of 1,000."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

import dpbandits as dp
from docs.figures._saving import save
from dpbandits._plots import INK, LINE, SOFT, TINT, TRUST_COLOURS, new_figure
from dpbandits.privacy import Mechanism, calibrate

AVERAGE, COHORT = 0.62, 1000
COLUMNS = {"client": 0.0, "shuffler": 3.3, "server": 6.6, "everybody": 9.9}
REPORTED = 20  # numbers in a report
WIDTH, HEIGHT = 2.3, 0.78


def numbers(trust: str) -> tuple[str, str]:
    """Return the report of the client and the released mean, in units of the reward."""
    request = dp.PrivacyRequest(trust=trust, epsilon=1, delta=1e-6)
    mechanism = calibrate(request, coordinates=REPORTED, cohort=COHORT, bound=1.0)
    rng = np.random.default_rng(3)
    noise, others = dp.SimulatedNoise(rng), rng.normal(0.5, 0.2, (COHORT, REPORTED))
    others[0, 0] = AVERAGE
    sent = mechanism.randomize(others, noise)
    released = mechanism.analyze(mechanism.shuffle(sent, noise), COHORT, noise)
    return _read(mechanism, sent[0], noise), f"{float(released[0]):.3f}"


def _read(mechanism: Mechanism, report: Any, noise: dp.SimulatedNoise) -> str:
    """Return what one report says alone."""
    if mechanism.trust == "local":
        return f"{float(mechanism._analyze(report[None], 1, noise)[0]):.2f}"
    if mechanism.message.kind == "numbers":
        return f"{float(report[0]):.2f}"
    return f"{mechanism.unit_of_message * (int(report[0]) - mechanism.message.twice_centre / 2):.2f}"


def draw() -> None:
    """Draw one row of boxes per trust model."""
    figure, axes = new_figure(9.6, 5.2)
    axes.set(xlim=(-2.2, 12.4), ylim=(-0.4, 8.6), xticks=[], yticks=[])
    axes.grid(visible=False)
    axes.spines[["left", "bottom"]].set_visible(False)
    for name, x in COLUMNS.items():
        shown = "everybody:\nthe released mean" if name == "everybody" else name
        axes.text(x + WIDTH / 2, 8.0, shown, ha="center", va="center", color=INK, fontsize=11, weight="bold")
    for row, trust in enumerate(("none", "central", "shuffle", "local")):
        y = 6.2 - 2.0 * row
        report, released = numbers(trust)
        colour = TRUST_COLOURS[trust]
        axes.text(
            -0.3, y + HEIGHT / 2, trust, ha="right", va="center", color=colour, fontsize=12, weight="bold"
        )
        noisy = {"central": "server", "shuffle": "client", "local": "client"}.get(trust)
        for party, text in sees(trust, report, released).items():
            _box(axes, COLUMNS[party], y, text, colour, noisy=party == noisy)
        stops = [COLUMNS[party] for party in sees(trust, report, released)]
        for left, right in pairwise(stops):
            arrow = {"arrowstyle": "->", "color": SOFT}
            start, end = (left + WIDTH, y + HEIGHT / 2), (right, y + HEIGHT / 2)
            axes.annotate("", xy=end, xytext=start, arrowprops=arrow)
    axes.text(-2.1, -0.3, "a thick border: noise is added here", color=SOFT, fontsize=9)
    save(figure, "who-sees-what.png")


def sees(trust: str, report: str, released: str) -> dict[str, str]:
    """Return what each party sees of the client."""
    own = f"its own {AVERAGE}"
    if trust == "shuffle":
        return {
            "client": own,
            "shuffler": f"{report} from it",
            "server": "only the sum",
            "everybody": released,
        }
    return {"client": own, "server": f"{report} from it", "everybody": released}


def _box(axes: Any, x: float, y: float, text: str, colour: str, *, noisy: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    edge, width = (colour, 2.6) if noisy else (LINE, 1.2)
    style = "round,pad=0.02,rounding_size=0.15"
    axes.add_patch(FancyBboxPatch((x, y), WIDTH, HEIGHT, boxstyle=style, fc=TINT, ec=edge, lw=width))
    axes.text(x + WIDTH / 2, y + HEIGHT / 2, text, ha="center", va="center", color=INK, fontsize=10)


if __name__ == "__main__":
    draw()
