"""The people of a study, from what the user gives: a function, clients, tables of rewards, or a population.

Each kind knows what may be assumed about its rewards. That decides how the study is planned and how wide the
intervals are, see `Knowledge`.
"""

from __future__ import annotations

import inspect
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from typing import Any

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import non_negative
from dpbandits.answers import Knowledge, RewardRange
from dpbandits.choosing._replay import Replay, Replaying
from dpbandits.errors import InvalidValue
from dpbandits.options import Options, read_columns
from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Plan, Schedule, State, Study
from dpbandits.rounds import run_in_process
from dpbandits.world import Clients, Population

Averages = Callable[[Plan], Sequence[float] | None]
ACCEPTED = (
    "a function people(label) or people(label, rng), clients (functions of a label), "
    "a table with one column per option, a Replay, or a population"
)


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A study that was run.

    Attributes:
        state: The learner's state at the end.
        stopped: Why the study stopped asking people before its last planned phase; empty if it did not.
    """

    state: State
    stopped: str = ""


class People(ABC):
    """The people whom a study asks.

    Attributes:
        knowledge: What is known about their rewards.
        heterogeneity: σ of the study.
        bounded: Whether each single reward lies in the range.
        assignment: `Study.assignment`.
        size: How many people there are, if they are drawn uniformly in this process; else None.
    """

    knowledge = Knowledge.MODEL
    heterogeneity = 0.0
    bounded = True
    assignment = "everyone"
    size: int | None = None

    def schedule(self, participants: int) -> Schedule | None:  # noqa: ARG002
        """Return the schedule of a study; None if `budgeted` plans it.

        Args:
            participants: The most people that the study may ask.
        """
        return None

    @abstractmethod
    def run(self, study: Study, *, seed: int | None, noise: NoiseSource) -> Ran:
        """Run a study on these people.

        Args:
            study: The study.
            seed: Determines which people are drawn, and their rewards as far as these are drawn here.
            noise: The source of the privacy noise.

        Raises:
            InvalidValue: There are too few people.
        """


class PlayingPeople(People):
    """People of whom each can play every option: clients of `run_in_process`."""

    @abstractmethod
    def clients(self, count: int, seed: int | None) -> dict[str, Averages]:
        """Return new clients for `run_in_process`.

        Args:
            count: How many.
            seed: Determines their rewards, as far as these are drawn here.

        Raises:
            InvalidValue: There are fewer than `count`.
        """

    def run(self, study: Study, *, seed: int | None, noise: NoiseSource) -> Ran:
        """Run a study with as many clients as its schedule asks."""
        clients = self.clients(sum(study.schedule.cohorts or ()) + study.after_learning, seed)
        return Ran(state=run_in_process(study, averages=clients, noise=noise))


def people_of(
    people: object, options: Options, rewards: RewardRange, *, heterogeneity: float | None = None
) -> People:
    """Return the people of what the user gave.

    Args:
        people: As in `choose`.
        options: The options.
        rewards: The range of rewards.
        heterogeneity: As in `choose`.

    Raises:
        InvalidValue: `people` is not of an accepted kind.
    """
    sigma = None if heterogeneity is None else non_negative(heterogeneity=heterogeneity)
    if isinstance(people, Replay):
        return ReplayedPeople(people, options, rewards)
    if isinstance(people, Clients):
        return SimulatedPeople(people, options, rewards, sigma)
    if callable(people) and not hasattr(people, "columns"):
        return DrawnPeople(people, options, rewards)
    clients = _functions(people)
    if clients is not None:
        return PersistentPeople(clients, options, rewards, sigma)
    if isinstance(people, int | float | bytes) or people is None:
        raise InvalidValue("people", type(people).__name__, ACCEPTED)
    return MeasuredPeople(people, options, rewards)


def _functions(people: Any) -> Iterable[Any] | None:
    """Return the clients if `people` is a mapping to functions, a list of functions or an iterator."""
    if isinstance(people, Mapping):
        values = list(people.values())
        return values if values and all(map(callable, values)) else None
    if isinstance(people, Sequence) and not isinstance(people, str):
        return people if people and callable(people[0]) else None
    return people if hasattr(people, "__next__") else None


class DrawnPeople(PlayingPeople):
    """A function that draws the reward of one play of a new person; all calls are independent."""

    def __init__(self, function: Callable[..., Any], options: Options, rewards: RewardRange) -> None:
        self._function, self._options, self._rewards = function, options, rewards
        self._takes_rng = _takes_rng(function)

    def clients(self, count: int, seed: int | None) -> dict[str, Averages]:
        """Return clients with a generator each, so that their rewards do not depend on the order."""
        root = np.random.SeedSequence(seed)
        return {str(number): self._client(child) for number, child in enumerate(root.spawn(count), 1)}

    def _client(self, seed: np.random.SeedSequence) -> Averages:
        def averages(plan: Plan) -> list[float]:
            if not self._takes_rng:
                return _averages(plan, self._options, self._rewards, self._function)
            rng = np.random.default_rng(seed)
            return _averages(plan, self._options, self._rewards, lambda label: self._function(label, rng))

        return averages


def _takes_rng(function: Callable[..., Any]) -> bool:
    """Return whether the function takes a generator after the label."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some functions written in C have no signature
        return False
    if any(one.kind is one.KEYWORD_ONLY and one.default is one.empty for one in parameters):
        raise InvalidValue("people", "a function with required keywords", ACCEPTED)
    places = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in places)
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return True
    if needed > 2 or not places:
        raise InvalidValue("people", f"a function of {needed} arguments", ACCEPTED)
    return len(places) >= 2 and (needed == 2 or places[1].name == "rng")


class PersistentPeople(PlayingPeople):
    """Clients that keep their own taste: each is a function from a label to the reward of one play."""

    def __init__(
        self, given: Iterable[Any], options: Options, rewards: RewardRange, heterogeneity: float | None
    ) -> None:
        self._given, self._options, self._rewards = given, options, rewards
        self.knowledge = Knowledge.BOUNDED if heterogeneity is None else Knowledge.MODEL
        self.heterogeneity = _GUESS if heterogeneity is None else heterogeneity

    def clients(self, count: int, seed: int | None) -> dict[str, Averages]:  # noqa: ARG002
        """Take the next clients; an iterator is asked for no more than these."""
        taken = list(islice(iter(self._given), count))
        if len(taken) < count:
            raise _too_few(len(taken), count)
        for number, client in enumerate(taken, 1):
            if not callable(client):
                raise InvalidValue(f"people, client {number}", type(client).__name__, "a function of a label")
        return {str(number): self._client(client) for number, client in enumerate(taken, 1)}

    def _client(self, client: Callable[[str], Any]) -> Averages:
        return lambda plan: _averages(plan, self._options, self._rewards, client)


class MeasuredPeople(PlayingPeople):
    """A table of measured rewards: one row per person and one column per option."""

    knowledge = Knowledge.TABLE

    def __init__(self, table: object, options: Options, rewards: RewardRange) -> None:
        columns = read_columns(table, name="people")
        for label in options.labels:
            if label not in columns:
                raise InvalidValue("people", f"no column {label!r}", "a table with one column per option")
        self.heterogeneity = _GUESS
        self._matrix = np.column_stack(
            [_measured(label, columns[label], rewards) for label in options.labels]
        )
        self.size = len(self._matrix)

    def schedule(self, participants: int) -> Schedule:
        """Return one phase with one play per option: more would repeat the same measurements."""
        return Schedule(cohorts=(participants,), first_length=1)

    def clients(self, count: int, seed: int | None) -> dict[str, Averages]:
        """Draw people without replacement, each of them once."""
        if len(self._matrix) < count:
            raise _too_few(len(self._matrix), count)
        if seed is None:  # who is asked stays secret
            chosen = secrets.SystemRandom().sample(range(len(self._matrix)), count)
        else:
            chosen = np.random.default_rng(seed).permutation(len(self._matrix))[:count].tolist()
        return {str(number): self._client(self._matrix[row]) for number, row in enumerate(chosen, 1)}

    def _client(self, row: FloatArray) -> Averages:
        return lambda plan: row[list(plan.support)].tolist()


class ReplayedPeople(People):
    """People who were assigned at random: each has one measured option, see `Replay`."""

    # A reward in [−1, 1] is sub-Gaussian around its mean with proxy 1, as in the model with σ = 0.
    knowledge = Knowledge.TABLE
    assignment = "one_per_round"

    def __init__(self, given: Replay, options: Options, rewards: RewardRange) -> None:
        self._given, self._labels = given, options.labels
        columns = read_columns(given.table, name="people", text=given.option)
        for name in (given.option, given.reward):
            if name not in columns:
                raise InvalidValue("people", f"no column {name!r}", "the columns that the Replay names")
        places = {label: place for place, label in enumerate(options.labels)}
        # Labels are compared without superfluous spaces, as `Options` has them.
        labels = [" ".join(str(label).split()) for label in columns[given.option]]
        had = np.array([places.get(label, -1) for label in labels], dtype=np.int64)
        measured = _measured(given.reward, columns[given.reward], rewards)
        self._rewards = [measured[had == place] for place in range(len(options.labels))]

    def schedule(self, participants: int) -> Schedule:
        """Return the schedule of the replay."""
        return self._given.schedule(participants, len(self._labels))

    def run(self, study: Study, *, seed: int | None, noise: NoiseSource) -> Ran:
        """Ask people who had the option of each round, in random order and each of them once."""
        rng = np.random.default_rng(seed)
        state, stopped = Replaying(study, self._labels, self._rewards, rng, noise).run()
        return Ran(state=state, stopped=stopped)


class SimulatedPeople(PlayingPeople):
    """One of the library's populations, whose actions must be those of the options."""

    bounded = False

    def __init__(
        self, population: Clients, options: Options, rewards: RewardRange, heterogeneity: float | None
    ) -> None:
        if population.instance.actions != options.actions:
            raise InvalidValue(
                "people", "a population with other actions", "one whose instance has options.actions"
            )
        if rewards != RewardRange():
            given = (rewards.low, rewards.high)
            raise InvalidValue(
                "reward_range", given, "(-1, 1) for a population, whose rewards are not scaled"
            )
        own = population.heterogeneity if isinstance(population, Population) else None
        if heterogeneity is None and own is None:
            kind = type(population).__name__
            raise InvalidValue("heterogeneity", None, f"a number >= 0, which a {kind} does not state")
        self.heterogeneity = float(heterogeneity if heterogeneity is not None else own or 0.0)
        if type(population) is Population and population.normal and self.heterogeneity == own:
            self.knowledge = Knowledge.NORMAL
        self._population = population

    def clients(self, count: int, seed: int | None) -> dict[str, Averages]:
        """Return clients that are drawn when they report."""
        size, asked = self._population.size, self._population.asked
        if size is not None and size - asked < count:
            raise _too_few(size - asked, count)
        rng = np.random.default_rng(seed)

        def averages(plan: Plan) -> list[float]:
            drawn = self._population.averages(1, plan.support, plan.plays, rng)
            return [float(value) for value in drawn[0]]

        return {str(number): averages for number in range(1, count + 1)}


# σ of a study for which it is not known. The intervals do not depend on it, see `Knowledge.only_range`.
_GUESS = 0.5


def _too_few(found: int, count: int) -> InvalidValue:
    return InvalidValue("people", f"{found:,}", f"at least {count:,}, since each participant is asked once")


def _averages(
    plan: Plan, options: Options, rewards: RewardRange, reward: Callable[[str], Any]
) -> list[float]:
    """Play every round of a plan, and return the average scaled reward of each option."""
    found, middle, half = list[float](), rewards.middle, rewards.half
    for action, plays in zip(plan.support, plan.plays, strict=True):
        label, total = options.labels[action], 0.0
        for _ in range(plays):  # `RewardRange.scaled` in line: there may be millions of rewards
            value = reward(label)
            if type(value) is not float or not -math.inf < value < math.inf:
                value = _number(value, label)
            scaled = (value - middle) / half
            total += -1.0 if scaled < -1 else 1.0 if scaled > 1 else scaled
        found.append(total / plays)
    return found


def _number(value: Any, label: str) -> float:
    """Return a reward as a float. Rewards are private, so errors name the option and never the value."""
    if isinstance(value, Real | np.bool_) and math.isfinite(float(value)):
        return float(value)
    kind = "a number that is not finite" if isinstance(value, Real) else type(value).__name__
    raise InvalidValue(f"people, reward of {label!r}", kind, "a finite number")


def _measured(label: str, values: Sequence[Any], rewards: RewardRange) -> FloatArray:
    found = np.empty(len(values))
    for place, value in enumerate(values):
        if not isinstance(value, Real) or not math.isfinite(float(value)):
            kind = "a missing value" if value is None else type(value).__name__
            raise InvalidValue(f"people, column {label}, row {place + 1}", kind, "a finite number")
        found[place] = rewards.scaled(float(value))
    return found
