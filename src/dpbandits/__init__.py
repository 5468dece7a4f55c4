"""Learn the action that is best for a whole population, without learning about any one of its members.

Example: plan a study and run it on a simulated population.

    >>> import dpbandits as dp
    >>> actions = dp.Actions.generate("sphere", count=20, dimension=2, rng=1)
    >>> privacy = dp.PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
    >>> study = dp.plan_study(actions=actions, horizon=10_000, participants=1000, privacy=privacy)
    >>> instance = dp.Instance(actions, theta=actions.matrix[0])
    >>> trace = dp.simulate(study, dp.Population(instance, heterogeneity=0.1), seed=7)
    >>> trace.participants, trace.guarantee.epsilon
    (1000, 1.0)

The algorithm is five functions that the simulator, the service and any other carrier call in turn: `ask`,
`respond`, `shuffle`, `analyze` and `tell`. If a plan has one cohort per action, `respond`, `shuffle` and
`analyze` take each of its `parts`, and `gather` combines their releases.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
