"""`Analyst`: computes the answer, the rankings and the curves that pages show, once per phase, in a thread.

Pages never wait for an analysis. With a million options the answer takes seconds. Until it is computed, the
pages show the progress records, which the coordinator stores in any case.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits.answers import Answer, answer_of
from dpbandits.errors import DpbanditsError
from dpbandits.options import Options
from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate
from dpbandits.protocol import Plan, Prediction, State, decode, predict, states_before
from dpbandits.service.coordinator import LEVEL, Journalled
from dpbandits.service.wire import ResultsReply

log = logging.getLogger("dpbandits.service")

ALL = 1000  # up to this many options, the intervals of all options are computed, not only of those left
_PREDICTED = 20_000  # with more options, no prediction is computed
_DRAWS = 200
_CURVE = tuple(round(0.125 * one, 3) for one in range(1, 17))  # as a share of ε
_FACTORS = (0.5, 0.25)  # of ε, to show what a smaller ε would have cost

Curve = tuple[tuple[float, float], ...]


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What was computed from a state. Fields are filled one after another, so some may be empty.

    Attributes:
        phase: The phase of the state; 0 before the first analysis.
        results: The reply of `/v1/results`.
        answer: The answer. With at most `ALL` options, it has the intervals of all of them.
        scores: The estimated mean reward of each option, if there is an answer.
        order: The options, the highest estimate first.
        dropped: For each option, the phase that dropped it; 0 if it is left.
        curves: δ(ε) of each phase that asked clients, by phase.
        costs: The noise with a smaller ε, relative to the noise of the last phase: pairs of ε and factor.
        prediction: What the planner predicts for the study; None if there are too many options.
    """

    phase: int = 0
    results: ResultsReply | None = None
    answer: Answer | None = None
    scores: FloatArray | None = None
    order: IntArray | None = None
    dropped: IntArray | None = None
    curves: tuple[tuple[int, Curve], ...] = ()
    costs: tuple[tuple[float, float], ...] = ()
    prediction: Prediction | None = None


class Analyst:
    """A thread that analyses the newest state that it was shown.

    Args:
        options: The options of the study; None if its actions have no names.
        results_of: Computes the reply of `/v1/results`.

    Attributes:
        found: The newest analysis.
    """

    def __init__(self, options: Options | None, results_of: Callable[[Journalled], ResultsReply]) -> None:
        self._options = options
        self._results_of = results_of
        self.found = Analysis()
        self._waiting: Journalled | None = None
        self._asked = threading.Condition()
        self._thread: threading.Thread | None = None
        self._curves = dict[Mechanism, Curve]()

    def show(self, journalled: Journalled) -> Analysis:
        """Show a state, and return the newest analysis, which may be of an earlier state."""
        if journalled.state.phase != self.found.phase:
            with self._asked:
                self._waiting = journalled
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, name="analyst", daemon=True)
                    self._thread.start()
                self._asked.notify()
        return self.found

    def _run(self) -> None:
        while True:
            with self._asked:
                while self._waiting is None:
                    self._asked.wait()
                journalled, self._waiting = self._waiting, None
            if journalled.state.phase == self.found.phase:
                continue
            try:
                self._analyse(journalled)
            except Exception as error:  # pages are shown without an analysis then
                log.error("analysis", extra={"kind": type(error).__name__})
                self.found = replace(self.found, phase=journalled.state.phase)

    def _analyse(self, journalled: Journalled) -> None:
        state = journalled.state
        last = self.found  # its curves, of earlier phases, are shown until the new ones are computed
        results = self._results_of(journalled)
        answer = self._answer(results, state)
        self.found = Analysis(
            phase=state.phase,
            results=results,
            answer=answer,
            curves=last.curves,
            costs=last.costs,
            prediction=last.prediction,
            **_ranking(state, answer),
        )
        self.found = replace(self.found, dropped=_dropped(state))
        plans = [decode(record.body, Plan) for record in journalled.plans]
        asked = [plan for plan in plans if plan.mechanism is not None]
        if state.study.privacy.trust_model.private:
            curves = tuple((plan.phase, self._curve(plan, state.study.privacy.epsilon)) for plan in asked)
            costs = _costs(state.study.privacy, asked[-1].asked_mechanism) if asked else ()
            self.found = replace(self.found, curves=curves, costs=costs)
        if self.found.prediction is None and state.study.actions.count <= _PREDICTED:
            self.found = replace(self.found, prediction=_prediction(state))

    def _answer(self, results: ResultsReply, state: State) -> Answer | None:
        if results.answer is None or state.study.actions.count > ALL:
            return results.answer
        return answer_of(state, self._options, level=LEVEL)

    def _curve(self, plan: Plan, epsilon: float) -> Curve:
        mechanism = plan.asked_mechanism
        if mechanism not in self._curves:
            deltas = [float(mechanism.event.delta(share * epsilon)) for share in _CURVE]
            # δ(ε) never grows with ε, so an upper bound at a smaller ε also holds at a larger one.
            least = np.minimum.accumulate(deltas).tolist()
            self._curves[mechanism] = tuple(
                (share * epsilon, one) for share, one in zip(_CURVE, least, strict=True)
            )
        return self._curves[mechanism]


def _ranking(state: State, answer: Answer | None) -> dict[str, Any]:
    """Return the scores and the order of all options. Sorting a million takes too long for a page."""
    if answer is None:
        return {}
    everything = np.arange(state.study.actions.count)
    matrix, parameter = state.study.actions.matrix, np.array(answer.parameter)
    scores = state.study.reward_model.means(matrix, everything, parameter)
    return {"scores": scores, "order": np.argsort(-scores, kind="stable")}


def _dropped(end: State) -> IntArray:
    """Return the phase that dropped each option; 0 if it is left."""
    dropped = np.zeros(end.study.actions.count, dtype=np.int64)
    for before, after in pairwise(states_before(end)):
        gone = np.setdiff1d(before.active_actions, after.active_actions, assume_unique=True)
        dropped[gone] = before.phase
    return dropped


def _costs(privacy: PrivacyRequest, used: Mechanism) -> tuple[tuple[float, float], ...]:
    own = used.error_deviation(used.cohort)
    found = list[tuple[float, float]]()
    for factor in _FACTORS:
        smaller = replace(privacy, epsilon=factor * privacy.epsilon)
        try:
            made = calibrate(
                smaller,
                coordinates=used.coordinates,
                cohort=used.cohort,
                bound=used.bound,
                shape=used.shape,
            )
        except DpbanditsError:
            continue
        found.append((smaller.epsilon, made.error_deviation(made.cohort) / own))
    return tuple(found)


def _prediction(state: State) -> Prediction | None:
    try:
        return predict(state.study, draws=_DRAWS)
    except DpbanditsError:
        return None
