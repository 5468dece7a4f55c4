"""`Replay`: runs a study on people of a randomised experiment, with one measured option per person.

In a randomised experiment each person has one option, drawn at random, and one measured answer. A study with
one client per round can be replayed on these people: when the study asks for a client for option x, it takes
the measured answer of a person who had x and was not asked before. No model of rewards is needed, and no
answer is invented.

The people of an option are asked in random order. The intervals follow from these facts:

- With one phase, the asked people of an option are a sample without replacement of all who had it. The bounds
  for samples with replacement also hold for the mean of such a sample (Hoeffding 1963), and options are
  sampled independently. So the intervals cover the means of the table, whatever the table contains.
- With several phases, the answers of earlier people decide who is asked later, and the people who are left no
  longer have the mean of the table. Then the intervals cover the means of the population that the people of
  each option were drawn from, if they were drawn independently.

Which person had which option is treated as public. Rewards are private: neighbouring tables differ in the
reward of one person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy import NoiseSource
from dpbandits.protocol import (
    Plan,
    Release,
    Schedule,
    State,
    Study,
    analyze,
    ask,
    gather,
    respond_with_averages,
    shuffle,
    tell,
)

_MOST_PHASES = 20  # each phase is twice as long as the one before, so 20 phases need a million people


@dataclass(frozen=True, kw_only=True)
class Replay:
    """People of a randomised experiment, each with one measured option.

    Example: `dp.choose(options, people=Replay(table="people.csv", option="plan", reward="rating"))`.

    Attributes:
        table: One person per row: a data frame, a CSV file, a mapping of columns or a list of dicts. Each row
            is asked at most once, so a person must not have two rows.
        option: The column with the label of the person's option. Rows whose label is not that of an option
            are not used.
        reward: The column with the person's reward.
        phases: How many phases the people are divided into. Each phase has twice the rounds of the one
            before. With more than one phase, options that cannot be best are dropped between phases, so
            that fewer people are asked about them.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> people = [{"plan": "ab"[i % 2], "rating": 0.2 + 0.5 * (i % 2)} for i in range(400)]
        >>> options = dp.Options.from_table({"name": ["a", "b"], "price": [1, 2]})
        >>> replay = dp.Replay(table=people, option="plan", reward="rating")
        >>> noise = dp.SimulatedNoise(np.random.default_rng(1))
        >>> found = dp.choose(
        ...     options, people=replay, participants=300, trust="none", reward_range=(0, 1), noise=noise
        ... )
        >>> found.best
        'b'
    """

    table: object
    option: str
    reward: str
    phases: int = 1

    def __post_init__(self) -> None:
        whole(1, _MOST_PHASES, phases=self.phases)

    def schedule(self, participants: int, options: int) -> Schedule:
        """Return phases that together ask at most `participants` people.

        Args:
            participants: How many people may be asked.
            options: How many options there are. The share of an option is rounded up, so a phase may have
                almost this many rounds more than its nominal length.

        Raises:
            InvalidValue: There are too few participants for a first phase of one round, with all rounding up.
        """
        total, rounding = 2**self.phases - 1, self.phases * (options - 1)
        first = (participants - rounding) // total
        if first < 1:
            expected = f"at least {total + rounding:,} for {options} options in {self.phases} phases"
            raise InvalidValue("participants", f"{participants:,}", expected)
        lengths = tuple(first * 2**phase for phase in range(self.phases))
        return Schedule(cohorts=lengths, first_length=first, growth=2.0)


class Replaying:
    """Runs one replay. It holds the scaled rewards of the people of each option who were not asked yet.

    Args:
        study: A study with one client per round.
        labels: The labels of the options.
        rewards: For each option, the scaled rewards of the people who had it.
        rng: Determines the order of the people.
        noise: The source of the privacy noise.
    """

    def __init__(
        self,
        study: Study,
        labels: Sequence[str],
        rewards: Sequence[FloatArray],
        rng: np.random.Generator,
        noise: NoiseSource,
    ) -> None:
        self._study, self._labels, self._noise = study, labels, noise
        self._left = [rng.permutation(own) for own in rewards]

    def run(self) -> tuple[State, str]:
        """Run the study to its last phase, or until too few people of an option are left.

        Returns:
            The learner's state, and why the study stopped early; empty if it did not.

        Raises:
            InvalidValue: There are too few people of an option for the first phase. Nobody has been asked.
        """
        state = self._study.begin()
        while not state.ended and (plan := ask(state)).asks:
            short = self._short(plan)
            if short is not None:
                option, needed = short
                found, label = len(self._left[option]), self._labels[option]
                if not state.history:
                    raise InvalidValue(
                        f"people with {label!r}",
                        f"{found:,}",
                        f"at least {needed:,}, since each person is asked once: ask fewer participants, or "
                        "leave this option out",
                    )
                return state, f"phase {plan.phase} needs {needed:,} people with {label!r}, {found:,} are left"
            state = tell(state, plan, self._release(plan))
        return state, ""

    def _short(self, plan: Plan) -> tuple[int, int] | None:
        """Return the option that lacks the most people, and how many it needs; None if none lacks any."""
        missing = [
            (plays - len(self._left[option]), option, plays)
            for option, plays in zip(plan.support, plan.plays, strict=True)
        ]
        amount, option, plays = max(missing)
        return (option, plays) if amount > 0 else None

    def _release(self, plan: Plan) -> Release:
        """Ask the next people of each option, and release the means as a deployed study does."""
        releases = list[Release]()
        for part, plays in zip(plan.parts, plan.plays, strict=True):
            (option,) = part.support
            asked, self._left[option] = self._left[option][:plays], self._left[option][plays:]
            reports = [respond_with_averages(part, [float(one)], self._noise) for one in asked]
            releases.append(analyze(part, shuffle(part, reports, self._noise), self._noise))
        return gather(plan, releases)
