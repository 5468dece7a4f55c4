"""Learn the action that is best for a whole population, without learning about any one of its members.

A study in a few lines, on a simulated population:

    import dpbandits as dp

    actions = dp.Actions.generate("sphere", count=1000, dimension=20, rng=1)
    privacy = dp.PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
    study = dp.plan_study(actions=actions, horizon=10**6, participants=50_000, privacy=privacy)
    instance = dp.Instance(actions, theta=actions.matrix[0])
    trace = dp.simulate(study, dp.Population(instance, heterogeneity=0.1), seed=7)
    print(trace.regret, trace.participants, trace.guarantee)

`ask`, `respond`, `shuffle`, `analyze` and `tell` are the five steps that every carrier repeats. Where each
action has clients of its own, these take the plan's `parts`, and `gather` puts the releases together.
"""

from dpbandits.actions import Actions
from dpbandits.design import Design, near_g_optimal
from dpbandits.errors import DpbanditsError
from dpbandits.privacy import Guarantee, Mechanism, PrivacyRequest, SimulatedNoise, register
from dpbandits.protocol import (
    Batch,
    Plan,
    Release,
    Report,
    Schedule,
    State,
    Study,
    analyze,
    ask,
    decode,
    encode,
    gather,
    plan_study,
    replay,
    respond,
    respond_with_averages,
    shuffle,
    tell,
)
from dpbandits.simulation import RunTrace, Setting, simulate, sweep
from dpbandits.world import Instance, Population

__version__ = "0.1.0"

__all__ = [
    "Actions",
    "Batch",
    "Design",
    "DpbanditsError",
    "Guarantee",
    "Instance",
    "Mechanism",
    "Plan",
    "Population",
    "PrivacyRequest",
    "Release",
    "Report",
    "RunTrace",
    "Schedule",
    "Setting",
    "SimulatedNoise",
    "State",
    "Study",
    "analyze",
    "ask",
    "decode",
    "encode",
    "gather",
    "near_g_optimal",
    "plan_study",
    "register",
    "replay",
    "respond",
    "respond_with_averages",
    "shuffle",
    "simulate",
    "sweep",
    "tell",
]
