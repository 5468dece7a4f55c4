"""`Replay`: a study on the answers of people who were assigned at random, one measured option per person.

In a randomised experiment each person has one option, drawn at random, and one answer. A study with one
client per round can be replayed on it: when the study asks for a client for option x, a person who had x and
was not asked before gives the answer that was measured. No model of rewards is needed, and no answer is
invented.

The intervals rest on these facts. The people of an option come in random order.

- With one phase, the asked people of an option are a sample without replacement of all who had it. Hoeffding
  (1963) bounds its mean as if it were drawn with replacement, and options are sampled independently. So the
  intervals cover the means of the table, whatever the table contains.
- With several phases, who is asked later depends on the answers of earlier people, and the people who are
  left no longer have the mean of the table. Then the intervals cover the means of the population that the
  people of each option were drawn from, if they were drawn independently.

Which person had which option counts as public. Rewards are private: neighbours differ in one person's reward.
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

_MOST_PHASES = 20  # each phase is twice as long as the one before, so more would need a million people


@dataclass(frozen=True, kw_only=True)
class Replay:
    """People who were assigned at random: one measured option per person.

    Example: `dp.choose(options, people=Replay(table="people.csv", option="plan", reward="rating"))`.

    Attributes:
        table: One person per row: a data frame, a CSV file, a mapping of columns or a list of dicts. Each row
            is asked at most once, so a person must not have two rows.
        option: The column with the label of the person's option. Rows with another label than those of the
            options are not used.
        reward: The column with the person's reward.
        phases: How many phases the people are divided into. Each phase has twice the rounds of the one
            before. With more than one phase, options that cannot be best are dropped on the way, so that
            fewer people are asked about them.

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
            InvalidValue: There are too few participants for one round per option and phase.
        """
        total, rounding = 2**self.phases - 1, self.phases * (options - 1)
        first = (participants - rounding) // total
        if first < 1:
            expected = f"at least {total + rounding:,} for {options} options in {self.phases} phases"
            raise InvalidValue("participants", f"{participants:,}", expected)
        lengths = tuple(first * 2**phase for phase in range(self.phases))
        return Schedule(cohorts=lengths, first_length=first, growth=2.0)


class Replaying:
    """A replay: the scaled rewards of the people of each option, in the order in which they are asked.

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
        """Run the study until its last phase, or until the people of an option do not suffice.

        Returns:
            The learner's state, and why the study stopped early; empty if it did not.

        Raises:
            InvalidValue: The people do not suffice for the first phase. Nobody has been asked.
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
        """Return the option that most people are missing of, and how many it needs; None if all suffice."""
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
