"""`choose`: plans a study, runs it in this process, and returns what was found.

options = dp.Options.from_table("plans.csv", label="name", current="basic")
found = dp.choose(options, people=ask_one_person, participants=5000)
print(found)
"""

from __future__ import annotations

from dataclasses import fields

from dpbandits._checks import non_negative, positive, probability, whole
from dpbandits.answers import Answer, RewardRange, answer_of
from dpbandits.choosing._found import Found
from dpbandits.choosing._people import People, Ran, people_of
from dpbandits.choosing._planning import planned
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import NoiseSource, PrivacyRequest, SecureNoise, guarantee
from dpbandits.protocol import Study, check_level


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
    reward_variance: float | None = None,
    level: float = 0.95,
    confirm: bool | float = True,
    misfit: float = 0.0,
    notice_misfit: float | None = None,
    secret_sample: bool = False,
    seed: int | None = None,
    noise: NoiseSource | None = None,
) -> Found:
    """Find the option that is best for a whole population, with differential privacy.

    The study runs in this process, with the same mechanisms and the same noise as a deployed study. For a
    table or a `Replay` the schedule is fixed; otherwise `plan_study` plans it. This process acts for all
    parties. So the guarantee holds against everybody who sees the result but not this process.

    Args:
        options: The options.
        people: The people who are asked. One of:

            - a function `people(label)` or `people(label, rng)` that returns the reward of one play of an
              option by a randomly drawn person. All calls must be independent; `rng` is a NumPy generator.
            - clients: a list, a mapping or an iterator of functions from a label to a reward. Each function
              is one person, who may have a taste of their own.
            - a table of measured rewards with one row per person and one column per option.
            - `Replay`: a table of people who were assigned at random, with one measured option per person.
            - a population of `dpbandits.world` whose actions are `options.actions`.
        participants: How many people are asked, each of them once.
        trust: The trust model: none, central, local, shuffle, or one that a plugin adds.
        epsilon: The requested ε.
        delta: The requested δ.
        horizon: The total number of rounds to plan for. After all people were asked, the best guess is played
            in the remaining rounds. A longer horizon plans for smaller differences.
        reward_range: The range of single rewards. It is mapped to [−1, 1], and results are mapped back. A
            reward outside is clipped, so results are about the mean of clipped rewards.
        heterogeneity: An upper bound on the spread σ of people's own parameters, for rewards that are mapped
            to [−1, 1]. It is used for clients and for populations only. For clients, None means that σ is not
            known: intervals then assume only that rewards lie in the range, and are wider. For a population,
            None takes the σ that the population states, if it states one.
        reward_variance: An upper bound on the variance of the rewards of one person and option, in squared
            units of the reward. Example: 0.03 for clicks, 0 or 1, at rates of at most 3 %. Intervals are then
            narrower. For clients it needs a `heterogeneity`. Tables, a `Replay` and populations do not accept
            it.
        level: The probability with which each kind of interval covers the truth.
        confirm: Whether a last cohort compares finalists with the current option directly, without any
            model of rewards (`Found.confirmation`). True reserves a fifth of the participants, or nobody if
            the intervals would be too wide. A number is the half width that the intervals should have, in the
            units of the reward. Without a current option, or with a `Replay`, there is no confirmation.
        misfit: An upper bound on how far mean rewards deviate from a linear function of the features, in the
            units of the reward. Intervals allow for it.
        notice_misfit: If given, some people are reserved for a test of whether the features explain the mean
            rewards (`Found.fit`). The test is planned to notice deviations of up to this size, in the units
            of the reward. For clients it needs a `heterogeneity`. Tables and a `Replay` do not accept it.
        secret_sample: Whether nobody will learn which rows of a table of measured rewards were drawn. Less
            noise then suffices: about a third of it at ε = 1 if a tenth of the rows is drawn. It needs a
            trust model in which the server adds the noise, such as central, and no `seed`.
        seed: Determines which people are drawn, and their random generators. The privacy noise does not
            depend on it.
        noise: The source of the privacy noise; secure by default. With `SimulatedNoise` the result is
            reproducible and has no guarantee.

    Returns:
        The best option and all other options, with their intervals.

    Raises:
        InvalidValue: An argument is not accepted, there are too few people, or so few participants that
            nothing could be learnt.
        PrivacyError: No mechanism meets the requested privacy.

    Example:
        >>> import dpbandits as dp
        >>> table = {"name": ["basic", "plus", "max"], "price": [10, 15, 29], "net": ["red", "blue", "red"]}
        >>> import numpy as np
        >>> options = dp.Options.from_table(table, current="basic")
        >>> measured = np.random.default_rng(1).uniform([0, 1, 0], [1, 2, 1], (2000, 3))
        >>> people = dict(zip(options.labels, measured.T))
        >>> noise = dp.SimulatedNoise(np.random.default_rng(1))
        >>> found = dp.choose(
        ...     options, people=people, participants=2000, trust="central", reward_range=(0, 2), noise=noise
        ... )
        >>> found.best, found.lead.low > 0, found.lead_over_current.low > 0
        ('plus', True, True)
    """
    if not isinstance(options, Options):
        raise InvalidValue("options", type(options).__name__, "Options, from Options.from_table or grid")
    whole(1, participants=participants)
    whole(1, horizon=horizon)
    failure = 1 - probability(level=level)
    if seed is not None:
        whole(0, seed=seed)
    rewards = RewardRange.of(reward_range)
    square = rewards.half**2
    asked = people_of(people, options, rewards, heterogeneity=heterogeneity)
    share = _secret_share(asked, participants, seed) if secret_sample else 1.0
    privacy = PrivacyRequest(trust=trust, epsilon=epsilon, delta=delta, sampled_share=share)
    study = planned(
        options,
        asked,
        participants=participants,
        horizon=horizon,
        privacy=privacy,
        failure=failure,
        confirm=confirm if isinstance(confirm, bool) else positive(confirm=confirm) / rewards.half,
        misfit=non_negative(misfit=misfit) / rewards.half,
        variance=None if reward_variance is None else positive(reward_variance=reward_variance) / square,
        notice=None if notice_misfit is None else positive(notice_misfit=notice_misfit) / rewards.half,
    )
    return answer(options, study, asked, rewards=rewards, level=level, seed=seed, noise=noise)


def _secret_share(people: People, participants: int, seed: int | None) -> float:
    """Return the share of the people that a secret sample contains."""
    if people.size is None:
        expected = "False, unless people is a table of measured rewards with a row per person"
        raise InvalidValue("secret_sample", True, expected)
    if seed is not None:
        raise InvalidValue("seed", seed, "None with secret_sample: a seed reveals who was asked")
    return min(1.0, participants / people.size)


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
    check_level(level, study.confirmation)  # before anybody is asked
    source = noise or SecureNoise()
    ran = people.run(study, seed=seed, noise=source)
    found = answer_of(ran.state, options, level=level, knowledge=people.knowledge, rewards=rewards)
    return found_of(ran, found, simulated=source.simulated)


def found_of(ran: Ran, answer: Answer, *, simulated: bool) -> Found:
    """Return the answer of a study that ran in this process, with its guarantee.

    Args:
        ran: The study that was run.
        answer: Its answer.
        simulated: Whether its noise was simulated.
    """
    assert answer.lead is not None  # there are at least two options
    privacy = ran.state.study.privacy
    mechanisms = [own for evidence in ran.state.released for own in evidence.plan.mechanisms]
    return Found(
        **{one.name: getattr(answer, one.name) for one in fields(answer)},
        guarantee=None if simulated else guarantee(privacy, mechanisms),
        simulated=simulated,
        trust=privacy.trust,
        state=ran.state,
        stopped=ran.stopped,
    )
