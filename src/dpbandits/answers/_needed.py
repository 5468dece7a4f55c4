"""How many participants a further study would need to decide between the options that are left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.answers._answer import Answer
from dpbandits.answers._radii import Knowledge, radii
from dpbandits.errors import DpbanditsError
from dpbandits.protocol import Schedule, State, ask

_LONG = 10**9  # a horizon into which the phase fits
_MOST_DOUBLINGS = 12
_MOST_OPTIONS = 5000  # with more options left, the design of the further study would take long


def participants_to_decide(state: State, answer: Answer) -> int | None:
    """Return how many clients a further study of the options left would need, to a factor of 2.

    The further study asks one cohort, whose phase is as long as the longest phase of this study. It is
    assumed to find the same lead over the runner-up. The result is the number of clients at which the
    interval of this lead lies above 0. It is only a prediction: no interval and no choice depends on it.

    Args:
        state: The state after at least one release.
        answer: The answer of this state.

    Returns:
        The number of clients. None if there is no runner-up, if more than 2,048 times the clients of this
        study would be needed, or if the number cannot be predicted.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.answers import answer_of, participants_to_decide
        >>> options = examples.options()
        >>> state = examples.after_one_phase(examples.study(options))
        >>> answer = answer_of(state, options, level=0.95)
        >>> participants_to_decide(state, answer) <= 200
        True
    """
    others = [one for one in answer.options if one.action != answer.action]
    unknown = answer.intervals or len(state.active_actions) > _MOST_OPTIONS or not state.history
    if answer.lead is None or unknown or not others:
        return None
    rival = next((one for one in others if one.option == answer.lead.over), others[0])
    matrix = state.study.actions.matrix
    scores = matrix[[answer.action, rival.action]] @ np.array(answer.parameter)
    lead = float(scores[0] - scores[1])
    chance = (1 - answer.level) / (2 * max(1, len(state.active_actions) - 1))
    clients = max(2, answer.participants)
    for _ in range(_MOST_DOUBLINGS if lead > 0 else 0):
        try:
            width = _width(state, clients, matrix[answer.action] - matrix[rival.action], chance)
        except DpbanditsError:  # no mechanism for this number of clients
            return None
        if width < lead:
            return clients
        clients *= 2
    return None


def _width(state: State, clients: int, direction: FloatArray, chance: float) -> float:
    study = state.study
    length = max(study.schedule.length(one.plan.phase) for one in state.history)
    schedule = Schedule(cohorts=(clients,), first_length=length)
    further = replace(study, schedule=schedule, horizon=_LONG, population=None, terms="")
    start = replace(further.begin(), active=state.active)
    plan = ask(start)
    evidence = further.assignment_rule.evidence(start, plan, (clients,), None)
    evidence = replace(evidence, means=(0.0,) * plan.numbers)
    return float(radii(further, evidence, direction[None, :], chance, Knowledge.MODEL)[0])
