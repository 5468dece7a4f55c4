"""`choose`: plans a study, runs it in this process, and says what was found.

options = dp.Options.from_table("plans.csv", label="name", current="basic")
found = dp.choose(options, people=ask_one_person, participants=5000)
print(found)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import probability, whole
from dpbandits.choosing._bounds import Bounds
from dpbandits.choosing._found import Found, Lead, OptionResult
from dpbandits.choosing._people import People, people_of
from dpbandits.choosing._planning import planned
from dpbandits.choosing._rewards import RewardRange
from dpbandits.errors import InvalidValue
from dpbandits.options import Effect, Options
from dpbandits.privacy import NoiseSource, PrivacyRequest, SecureNoise, guarantee
from dpbandits.protocol import Release, State, Study, leader, tell


def choose(
    options: Options,
    *,
    people: object,
    participants: int = 5000,
    trust: str = "shuffle",
    epsilon: float = 1.0,
    delta: float = 1e-6,
    horizon: int = 1_000_000,
    reward_range: tuple[float, float] = (-1.0, 1.0),
    heterogeneity: float | None = None,
    level: float = 0.95,
    seed: int | None = None,
    noise: NoiseSource | None = None,
) -> Found:
    """Find the option that is best for a whole population, with differential privacy.

    The study is planned with `plan_study` and runs in this process, with the same mechanisms and the same
    noise as a deployed study. This process acts for all parties. So the guarantee holds against everybody who
    sees the result but not this process.

    Args:
        options: The options.
        people: Who is asked. One of:

            - a function `people(label)` or `people(label, rng)` that returns the reward of one play of an
              option by a randomly drawn person. All calls must be independent; `rng` is a NumPy generator.
            - clients: a list, a mapping or an iterator of functions from a label to a reward. Each function
              is one person, who may have a taste of their own.
            - a table of measured rewards with one row per person and one column per option.
            - `Replay`: a table of people who were assigned by lot, with one measured option per person.
            - a population of `dpbandits.world` whose actions are `options.actions`.
        participants: How many people are asked, each of them once.
        trust: The trust model: none, central, local or shuffle.
        epsilon: The requested ε.
        delta: The requested δ.
        horizon: The total number of rounds that are planned for, in which the best guess is played after all
            people were asked. A longer horizon plans for smaller differences.
        reward_range: The range of single rewards. It is mapped to [−1, 1], and results are mapped back. A
            reward outside is clipped, so results are about the mean of clipped rewards.
        heterogeneity: An upper bound on the spread σ of people's own parameters, for rewards that are mapped
            to [−1, 1]. A function needs none. For clients, None means that it is not known: intervals then
            assume only that rewards lie in the range, and are wider. A table never uses it for intervals.
        level: The probability with which each kind of interval covers the truth.
        seed: Determines which people are drawn and the generators that they get; not the privacy noise.
        noise: The source of the privacy noise; secure by default. With `SimulatedNoise` the result is
            reproducible and has no guarantee.

    Returns:
        The best option with its intervals, and all others.

    Raises:
        InvalidValue: An argument is not accepted, there are too few people, or so few participants that
            nothing could be learnt.
        PrivacyError: The privacy cannot be given.
    """
    if not isinstance(options, Options):
        raise InvalidValue("options", type(options).__name__, "Options, from Options.from_table or grid")
    whole(1, participants=participants)
    whole(1, horizon=horizon)
    failure = 1 - probability(level=level)
    if seed is not None:
        whole(0, seed=seed)
    privacy = PrivacyRequest(trust=trust, epsilon=epsilon, delta=delta)
    rewards = RewardRange.of(reward_range)
    asked = people_of(people, options, rewards, heterogeneity=heterogeneity)
    study = planned(
        options, asked, participants=participants, horizon=horizon, privacy=privacy, failure=failure
    )
    return answer(options, study, asked, rewards=rewards, level=level, seed=seed, noise=noise)


def answer(
    options: Options,
    study: Study,
    people: People,
    *,
    rewards: RewardRange,
    level: float = 0.95,
    seed: int | None = None,
    noise: NoiseSource | None = None,
) -> Found:
    """Run a planned study, and compute what was found.

    Args:
        options: The options of the study.
        study: The study, see `planned`.
        people: The people, see `people_of`.
        rewards: The range of rewards.
        level: As in `choose`.
        seed: As in `choose`.
        noise: As in `choose`.

    Returns:
        As `choose`.
    """
    source = noise or SecureNoise()
    ran = people.run(study, seed=seed, noise=source)
    bounds = Bounds(_states(ran.state), knowledge=people.knowledge, failure=1 - level)
    found = _Answer(options, ran.state, bounds, rewards).found(level, simulated=source.simulated)
    return replace(found, stopped=ran.stopped)


def _states(end: State) -> list[State]:
    """Return the state before each phase that asked people, and after the last of them."""
    states = [end.study.begin()]
    for evidence in end.history:
        release = Release(
            plan=evidence.plan.digest,
            means=evidence.means,
            reports=evidence.reports,
            simulated=False,
            counts=evidence.counts,
        )
        states.append(tell(states[-1], evidence.plan, release))
    return [*states[:-1], end]


class _Answer:
    """Puts the result of a study into the user's words and units."""

    def __init__(self, options: Options, end: State, bounds: Bounds, rewards: RewardRange) -> None:
        self._options, self._end, self._bounds, self._rewards = options, end, bounds, rewards
        self._scores = options.actions.matrix @ bounds.estimate
        self._best = leader(end)  # of the pooled estimate, which the study plays to the end

    def found(self, level: float, *, simulated: bool) -> Found:
        options, end, study = self._options, self._end, self._end.study
        mechanisms = [own for evidence in end.history for own in evidence.plan.mechanisms]
        low, high = self._bounds.mean(self._best)
        return Found(
            best=options.labels[self._best],
            estimate=self._rewards.mean(float(self._scores[self._best])),
            interval=(self._rewards.mean(low), self._rewards.mean(high)),
            lead=self._lead(self._runner_up(), fixed=False),
            lead_over_current=None
            if options.current is None
            else self._lead(options.index(options.current), fixed=True),
            level=level,
            guarantee=None if simulated else guarantee(study.privacy, mechanisms),
            simulated=simulated,
            trust=study.privacy.trust,
            consistent=self._bounds.consistent,
            participants=end.clients_asked,
            current=options.current,
            options=tuple(self._result(place) for place in np.argsort(-self._scores, kind="stable")),
            effects=self._effects(),
            state=end,
        )

    def _runner_up(self) -> int:
        """Return the option with the highest estimate after the best one, among those that may be best."""
        active = [place for place in self._end.active_actions.tolist() if place != self._best]
        others = active or [place for place in range(len(self._scores)) if place != self._best]
        return int(others[int(np.argmax(self._scores[others]))])

    def _lead(self, over: int, *, fixed: bool) -> Lead:
        ask = self._bounds.lead_over_fixed if fixed else self._bounds.lead
        low, high = ask(self._best, over)
        half, lead = self._rewards.half, float(self._scores[self._best] - self._scores[over])
        return Lead(over=self._options.labels[over], estimate=half * lead, low=half * low, high=half * high)

    def _result(self, place: int) -> OptionResult:
        low, high = self._bounds.mean(place)
        lead = self._lead(place, fixed=False)
        return OptionResult(
            option=self._options.labels[place],
            estimate=self._rewards.mean(float(self._scores[place])),
            low=self._rewards.mean(low),
            high=self._rewards.mean(high),
            behind=lead.estimate,
            behind_low=lead.low,
            behind_high=lead.high,
            may_be_best=bool(np.isin(place, self._end.active_actions)),
        )

    def _effects(self) -> tuple[Effect, ...]:
        """Return the effects with intervals, in the units of the reward."""
        translation, half = self._options.encoding.translation(), self._rewards.half
        effects = self._options.effects(self._bounds.estimate, self._bounds.covariance)
        found = list[Effect]()
        for place, (effect, direction) in enumerate(zip(effects, translation, strict=True)):
            shift = self._rewards.middle if place == 0 else 0.0  # the intercept alone is a mean reward
            low, high = self._interval_along(direction, len(translation))
            found.append(
                replace(
                    effect,
                    estimate=shift + half * effect.estimate,
                    deviation=half * (effect.deviation or 0.0),
                    low=shift + half * low,
                    high=shift + half * high,
                )
            )
        return tuple(found)

    def _interval_along(self, direction: FloatArray, family: int) -> tuple[float, float]:
        # Scaled to length 1, so that the test of the span does not depend on the user's units.
        length = float(np.linalg.norm(direction)) or 1.0
        low, high = self._bounds.along(direction / length, family)
        return low * length, high * length
