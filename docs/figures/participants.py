"""How wide the interval of the lead is, against the number of participants, for each trust model and ε."""

from __future__ import annotations

import numpy as np

import dpbandits as dp
from docs.figures._saving import save
from dpbandits._plots import TRUST_COLOURS, new_figure
from dpbandits.answers import answer_of
from dpbandits.protocol import simulate_groups

NUMBERS = (500, 1000, 2000, 5000, 10_000, 30_000, 100_000)
FEWEST_LOCAL = 2000  # with fewer, the range of the rewards cuts the interval
LINES = (("none", 1.0), ("central", 1.0), ("shuffle", 1.0), ("central", 0.25), ("local", 1.0), ("local", 3.0))


def width(trust: str, epsilon: float, participants: int) -> float:
    """Return the half width of the interval of the lead in a study with one phase."""
    table = {"name": list("abcdefgh"), "price": [1, 2, 3, 4, 5, 6, 7, 8], "size": [3, 1, 4, 1, 5, 9, 2, 6]}
    options = dp.Options.from_table(table)
    theta = np.array([0.3, -0.4, 0.3])
    study = dp.Study(
        actions=options.actions,
        horizon=10**6,
        schedule=dp.Schedule(cohorts=(participants,), first_length=120),
        privacy=dp.PrivacyRequest(trust=trust, epsilon=epsilon, delta=1e-6),
    )
    plan = dp.ask(study.begin())
    rng = np.random.default_rng(1)
    means = options.actions.matrix[list(plan.support)] @ theta
    averages = means + rng.normal(0, 0.15, (plan.cohort, len(means)))
    release, _ = simulate_groups(plan, [[plan.reported(averages)]], dp.SimulatedNoise(rng))
    state = dp.tell(study.begin(), plan, release)
    lead = answer_of(state, options, level=0.95).lead
    assert lead is not None
    return (lead.high - lead.low) / 2


def draw() -> None:
    """Draw one line per trust model and ε."""
    figure, axes = new_figure(7.0, 4.2)
    for trust, epsilon in LINES:
        style = "o-" if epsilon == 1 else "s--"
        label = "no privacy" if trust == "none" else f"{trust}, ε = {epsilon:g}"
        style = "^:" if trust == "shuffle" else style
        numbers = [number for number in NUMBERS if trust != "local" or number >= FEWEST_LOCAL]
        widths = [width(trust, epsilon, number) for number in numbers]
        axes.plot(numbers, widths, style, color=TRUST_COLOURS[trust], label=label, markersize=5)
    axes.set(xscale="log", yscale="log", xlabel="participants")
    axes.set_ylabel("half width of the interval of the lead\n(rewards from −1 to 1, level 0.95)")
    axes.legend(frameon=False, fontsize=9)
    save(figure, "participants.png")


if __name__ == "__main__":
    draw()
