"""A small study that the examples in the documentation use.

The study has three actions, 100 rounds, one cohort of 20 clients and no noise. The average rewards of its
clients are 0.9, 0.1 and 0.5 for the three actions.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbandits.actions import Actions
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Plan,
    Release,
    Report,
    Schedule,
    State,
    Study,
    analyze,
    ask,
    respond_with_averages,
    shuffle,
    tell,
)

__all__ = ["after_one_phase", "averages", "noise", "options", "plan", "release", "reports", "study"]

_REWARDS = (0.9, 0.1, 0.5)


def options() -> Options:
    """Return two options, "a" and "b", of which "b" is in use today.

    Returns:
        The options. Their rewards are 0.9 and 0.1.

    Example:
        >>> from dpbandits import examples
        >>> examples.options().labels
        ('a', 'b')
    """
    return Options.from_table({"name": ["a", "b"], "price": [1, 2]}, current="b")


def study(options: Options | None = None) -> Study:
    """Return a study whose clients add no noise.

    Args:
        options: The options of the study. With options, the study has 10,000 rounds and a cohort of 200
            clients. Without options, it has three actions without names.

    Returns:
        The study, before its first phase.

    Example:
        >>> from dpbandits import examples
        >>> study = examples.study()
        >>> study.horizon, study.actions.count, study.schedule.cohorts
        (100, 3, (20,))
    """
    if options is None:
        schedule = Schedule(cohorts=(20,), first_length=10)
        return Study(actions=Actions([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]]), horizon=100, schedule=schedule)
    schedule = Schedule(cohorts=(200,), first_length=20)
    return Study(actions=options.actions, horizon=10_000, schedule=schedule)


def noise() -> SimulatedNoise:
    """Return a source of simulated noise with a fixed seed.

    Returns:
        The source. It is not secure; a study with real clients needs `SecureNoise`.

    Example:
        >>> from dpbandits import examples
        >>> examples.noise().simulated
        True
    """
    return SimulatedNoise(np.random.default_rng(1))


def plan(privacy: PrivacyRequest | None = None) -> Plan:
    """Return the plan of the first phase of `study`.

    Args:
        privacy: The privacy of the study; none by default.

    Returns:
        The plan. It plays the first two actions five times each.

    Example:
        >>> from dpbandits import examples
        >>> plan = examples.plan()
        >>> plan.support, plan.plays, plan.cohort
        ((0, 1), (5, 5), 20)
    """
    own = study() if privacy is None else replace(study(), privacy=privacy)
    return ask(own.begin())


def averages(plan: Plan) -> list[float]:
    """Return the average rewards of a client that has played a plan.

    Args:
        plan: A plan of `study`.

    Returns:
        One number per action of `plan.support`.

    Example:
        >>> from dpbandits import examples
        >>> examples.averages(examples.plan())
        [0.9, 0.1]
    """
    return [_REWARDS[action] for action in plan.support]


def reports(plan: Plan) -> list[Report]:
    """Return the reports of all clients of a cohort.

    Args:
        plan: A plan of `study`.

    Returns:
        One report per client.

    Example:
        >>> from dpbandits import examples
        >>> len(examples.reports(examples.plan()))
        20
    """
    source = noise()
    return [respond_with_averages(plan, averages(plan), source) for _ in range(plan.cohort)]


def release(plan: Plan) -> Release:
    """Return the release of a cohort in which all clients report.

    Args:
        plan: A plan of `study`.

    Returns:
        The release.

    Example:
        >>> from dpbandits import examples
        >>> examples.release(examples.plan()).reports
        20
    """
    source = noise()
    return analyze(plan, shuffle(plan, reports(plan), source), source)


def after_one_phase(study: Study) -> State:
    """Return the state of a study after its first phase, in which all clients report.

    Args:
        study: The study.

    Returns:
        The learner's state.

    Example:
        >>> from dpbandits import examples
        >>> state = examples.after_one_phase(examples.study())
        >>> state.phase, state.clients_asked
        (2, 20)
    """
    plan = ask(study.begin())
    return tell(study.begin(), plan, release(plan))
