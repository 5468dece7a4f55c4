"""The appendix's experiment on learning-to-rank data."""

from __future__ import annotations

from dpbandits.experiments._against_time import AgainstTime
from dpbandits.experiments._experiment import Experiment
from dpbandits.experiments._models import CLOSE, PRESETS

DATA = "mslr-sample"
FIGURE = AgainstTime(
    presets={preset: setting.changed(data=DATA) for preset, setting in PRESETS.items()},
    epsilon=10.0,
    deltas=(0.01,),
    on=", ranking",
)

EXPERIMENT = Experiment(
    name="ranking",
    title="Appendix: ranking data",
    statement=(
        "With a reward function taken from learning-to-rank data, at (10, 0.01), the local model again "
        "has the largest regret, and the central and the shuffle model come close to DPE."
    ),
    choices=(
        "The paper uses data of Yahoo!, which may not be redistributed. We use the sample of MSLR-WEB that "
        "ships with the package; `dpbandits simulate --data` reads any svmlight ranking file, also Yahoo's.",
        "The paper does not say how θ* is extracted, nor its d, k and T. We chose: documents are actions "
        "(k = 1000 drawn in each run, d = 20 after whitening), θ* is a ridge regression of relevance, and "
        "users differ from it as the queries of the file do. T = 10⁶.",
        "Semi-real: which users are asked, and the noise of single rewards, are simulated.",
        f"“Close” means within {CLOSE:g} times the regret of DPE.",
    ),
    works=FIGURE.works,
    examine=FIGURE.examine,
)
