"""Computes the `Answer` of a study from the learner's state, in the user's words and units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.answers._answer import Answer, Lead, OptionResult
from dpbandits.answers._bounds import Bounds, Ends, Interval
from dpbandits.answers._confirming import confirmed_of
from dpbandits.answers._fit_check import fit_check_of
from dpbandits.answers._radii import Knowledge
from dpbandits.answers._rewards import RewardRange
from dpbandits.errors import InvalidValue
from dpbandits.options import Effect, Options, name_of
from dpbandits.protocol import State, best_estimate, check_level, leader, states_before


def answer_of(
    state: State,
    options: Options | None,
    *,
    level: float,
    knowledge: Knowledge = Knowledge.MODEL,
    rewards: RewardRange | None = None,
    only_left: int | None = None,
) -> Answer:
    """Return what a study has found after at least one release.

    Args:
        state: The learner's state.
        options: The options of the study; None if its actions have no names.
        level: The probability with which each kind of interval covers the truth.
        knowledge: What is known about the people.
        rewards: The range of rewards in the user's units; by default that of the study.
        only_left: If given, only the options left are listed, and at most this many.

    Returns:
        The answer. If no interval can be computed, for example because the reward model has none or the
        horizon is too short for the level, the intervals are the range of rewards that the study assumes, and
        `Answer.intervals` gives the reason.

    Raises:
        InvalidValue: The options do not belong to the study, or `level` is not strictly between 0 and 1 or
            too high for the study's confirmation.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.answers import answer_of
        >>> options = examples.options()
        >>> answer = answer_of(examples.after_one_phase(examples.study(options)), options, level=0.95)
        >>> answer.option, answer.lead.low > 0
        ('a', True)
    """
    check_level(level, state.study.confirmation)
    if options is not None and options.actions != state.study.actions:
        raise InvalidValue("options", "other actions", "the options of the study")
    given = rewards or RewardRange.of(state.study.reward_range, bound=state.study.bound)
    return _Answering(state, options, knowledge, given, level).answer(only_left)


class _Answering:
    """Computes the parts of one answer."""

    def __init__(
        self, end: State, options: Options | None, knowledge: Knowledge, rewards: RewardRange, level: float
    ) -> None:
        self._end, self._options, self._rewards, self._level = end, options, rewards, level
        self._knowledge = knowledge
        study = end.study
        self._parameter = best_estimate(end)
        everything = np.arange(study.actions.count)
        self._scores = study.reward_model.means(study.actions.matrix, everything, self._parameter)
        self._best = leader(end)  # the option that the study plays to the end
        self._bounds: Bounds | None = None
        self._unknown = ""
        try:
            self._bounds = Bounds(states_before(end), knowledge=knowledge, failure=1 - level)
        except InvalidValue as error:
            self._unknown = str(error)

    def answer(self, only_left: int | None) -> Answer:
        listed = self._listed(only_left)
        low, high = self._means([self._best])
        current = None if self._options is None else self._options.current
        runner_up = self._runner_up()
        return Answer(
            action=self._best,
            option=name_of(self._options, self._best),
            estimate=self._rewards.mean(float(self._scores[self._best])),
            low=self._rewards.mean(float(low[0])),
            high=self._rewards.mean(float(high[0])),
            lead=None if runner_up is None else self._lead(runner_up),
            lead_over_current=None if current is None else self._lead_over(current),
            current=current,
            level=self._level,
            intervals=self._unknown,
            consistent=self._bounds is None or self._bounds.consistent(listed),
            decided=self._decided(),
            participants=self._end.clients_asked,
            options=self._results(listed),
            effects=self._effects(),
            parameter=tuple(self._parameter.tolist()),
            fit=fit_check_of(self._end, rewards=self._rewards),
            confirmation=confirmed_of(
                self._end,
                self._options,
                level=self._level,
                rewards=self._rewards,
                knowledge=self._knowledge,
            ),
        )

    def _listed(self, only_left: int | None) -> list[int]:
        """Return the options to list, the highest estimate first."""
        if only_left is None:
            return [int(place) for place in np.argsort(-self._scores, kind="stable")]
        left = self._end.active_actions
        order = np.argsort(-self._scores[left], kind="stable")[:only_left]
        return [int(place) for place in left[order]]

    def _runner_up(self) -> int | None:
        """Return the option with the highest estimate after the best one; None if there is only one option.

        Options that the study dropped are considered only if no other option is left.
        """
        scores = self._scores.copy()
        active = self._end.active_actions
        if len(active) > 1:
            scores = np.full(len(scores), -np.inf)
            scores[active] = self._scores[active]
        scores[self._best] = -np.inf
        return None if len(scores) < 2 else int(np.argmax(scores))

    def _decided(self) -> bool:
        """Return whether the best option is better than every other option left, at the level."""
        others = self._end.active_actions
        others = others[others != self._best]
        return not len(others) or bool(np.all(self._leads(others.tolist())[0] > 0))

    def _means(self, places: Sequence[int]) -> Ends:
        if self._bounds is not None:
            return self._bounds.means(places)
        return self._range(len(places), self._end.study.bound)

    def _leads(self, over: Sequence[int]) -> Ends:
        if self._bounds is not None:
            return self._bounds.leads(self._best, over)
        low, high = self._range(len(over), 2 * self._end.study.bound)
        other = np.asarray(over) != self._best
        return low * other, high * other

    def _range(self, count: int, largest: float) -> Ends:
        return np.full(count, -largest), np.full(count, largest)

    def _lead(self, over: int) -> Lead:
        low, high = self._leads([over])
        return self._as_lead(over, (float(low[0]), float(high[0])))

    def _lead_over(self, current: str) -> Lead:
        assert self._options is not None
        fixed = self._options.index(current)
        if self._bounds is None:
            return self._lead(fixed)
        return self._as_lead(fixed, self._bounds.lead_over_fixed(self._best, fixed))

    def _as_lead(self, over: int, interval: Interval) -> Lead:
        half, (low, high) = self._rewards.half, interval
        lead = float(self._scores[self._best] - self._scores[over])
        return Lead(over=name_of(self._options, over), estimate=half * lead, low=half * low, high=half * high)

    def _results(self, places: list[int]) -> tuple[OptionResult, ...]:
        (lows, highs), (behind, ahead) = self._means(places), self._leads(places)
        active = np.isin(places, self._end.active_actions)
        mean, half, best = self._rewards.mean, self._rewards.half, self._scores[self._best]
        return tuple(
            OptionResult(
                option=name_of(self._options, place),
                estimate=mean(float(self._scores[place])),
                low=mean(float(lows[row])),
                high=mean(float(highs[row])),
                behind=half * float(best - self._scores[place]),
                behind_low=half * float(behind[row]),
                behind_high=half * float(ahead[row]),
                may_be_best=bool(active[row]),
                action=place,
            )
            for row, place in enumerate(places)
        )

    def _effects(self) -> tuple[Effect, ...]:
        """Return the effects with intervals, in the units of the reward."""
        linear = self._end.study.reward_model.linear_in_features
        if self._options is None or not linear or not self._options.encoding.terms:
            return ()
        translation, half = self._options.encoding.translation(), self._rewards.half
        covariance = None if self._bounds is None else self._bounds.covariance
        effects = self._options.effects(self._parameter, covariance)
        lows, highs = self._along(translation)
        found = list[Effect]()
        for place, effect in enumerate(effects):
            shift = self._rewards.middle if place == 0 else 0.0  # only the intercept is a mean reward
            found.append(
                replace(
                    effect,
                    estimate=shift + half * effect.estimate,
                    deviation=None if effect.deviation is None else half * effect.deviation,
                    low=shift + half * float(lows[place]),
                    high=shift + half * float(highs[place]),
                )
            )
        return tuple(found)

    def _along(self, directions: FloatArray) -> Ends:
        if self._bounds is None:
            return self._range(len(directions), np.inf)
        # Directions have length 1 here, so that the user's units do not change which of them are in the span.
        lengths = np.linalg.norm(directions, axis=1)
        lengths = np.where(lengths > 0, lengths, 1.0)
        low, high = self._bounds.along(directions / lengths[:, None])
        return low * lengths, high * lengths
