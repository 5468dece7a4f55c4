"""Figure 2b: per-round regret against time, in all trust models."""

from __future__ import annotations

from dpbandits.experiments._against_time import AgainstTime
from dpbandits.experiments._experiment import Experiment
from dpbandits.experiments._models import CLOSE, PRESETS

FIGURE = AgainstTime(presets=PRESETS, epsilon=10.0, deltas=(0.25, 0.1))

EXPERIMENT = Experiment(
    name="figure-2b",
    title="Figure 2b: regret per round against time",
    statement=(
        "At ε = 10 the local model has the largest regret per round, while the central and the shuffle "
        "model come very close to DPE, which has no privacy: privacy is almost free there."
    ),
    choices=(
        "δ = 0.25 and δ = 0.1: the paper's text states the first, its caption the second.",
        "B = 1, θ* on the unit sphere; all models see the same instances.",
        f"“Very close” means within {CLOSE:g} times the regret of DPE.",
    ),
    works=FIGURE.works,
    examine=FIGURE.examine,
)
