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

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
