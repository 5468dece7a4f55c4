"""`run_in_process`: runs a whole study in one process, with Python functions as clients.

    from dpbandits import run_in_process
    from dpbandits.storage import open_store

    state = run_in_process(study, rewards={"alice": play_for_alice, …}, store=open_store("sqlite:///a.sqlite"))
    print(state.active_actions)

If the process is interrupted, the same call with the same store continues where it stopped. It does not ask
clients again that have reported. It asks clients again that have joined and not reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from dpbandits.errors import InvalidValue
from dpbandits.privacy import NoiseSource, SecureNoise, tamed
from dpbandits.protocol import Plan, Report, State, Study, play_order, respond_with_averages
from dpbandits.rounds._rounds import Rounds
from dpbandits.storage import Attempt, MemoryStore, Store

_AT_ONCE = 500  # reports that are accepted in one transaction

Averages = Callable[[Plan], Sequence[float] | None]
Reward = Callable[[int], float | None]


def run_in_process(
    study: Study,
    *,
    rewards: Mapping[str, Reward] | None = None,
    averages: Mapping[str, Averages] | None = None,
    store: Store | None = None,
    noise: NoiseSource | None = None,
    play: Callable[[int, int], None] = lambda _action, _rounds: None,
) -> State:
    """Run a study to its end with Python functions as clients.

    This process acts for all parties, including the third party of the shuffle model. So the guarantee holds
    for the releases, against anybody who sees releases but not this process or its store.

    Args:
        study: The study. Its assignment must be `everyone`.
        rewards: For each client name, a function from the index of an action to the reward of one play. It is
            called once per round of the plan. If it returns None, the client drops out.
        averages: Instead of `rewards`: for each client name, a function from a plan to the average reward of
            each action in `plan.support`, over `plan.plays` rounds. If it returns None, the client drops out.
        store: The store of the study, such as `open_store("sqlite:///study.sqlite")`; in memory by default.
            The caller closes it.
        noise: The source of all noise; secure by default. With `SimulatedNoise` releases are marked as
            simulated.
        play: Called with an action and a number of consecutive rounds for each run of a phase, in the order
            of `play_order`.

    Returns:
        The learner's state at the end of the horizon, or when the operator has closed the study.

    Raises:
        Refused: `no-place` if the operator has paused the study.
        InvalidValue: Both or neither of `rewards` and `averages` were given; too few clients are left for
            the minimum of a phase (call again with more, and the same store); or the store belongs to
            another study.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> mean = [0.9, 0.1, 0.5]
        >>> clients = {f"client {number}": mean.__getitem__ for number in range(20)}
        >>> state = dp.run_in_process(examples.study(), rewards=clients, noise=examples.noise())
        >>> state.progress[-1].leader
        0
    """
    if (rewards is None) == (averages is None):
        raise InvalidValue("rewards", "both or neither of rewards and averages", "one of them")
    clients = averages if rewards is None else {name: averaging(one) for name, one in rewards.items()}
    assert clients is not None
    source = noise or SecureNoise()
    rounds = Rounds(study, store or MemoryStore(), noise=source)
    return InProcess(rounds=rounds, clients=clients, noise=source, play=play).run()


def averaging(reward: Reward) -> Averages:
    """Return a client that plays every round of a plan and averages as `respond` does: NaN counts as 0."""

    def averages(plan: Plan) -> list[float] | None:
        means = list[float]()
        for action, plays in zip(plan.support, plan.plays, strict=True):
            seen = list[float]()
            for _ in range(plays):
                one = reward(action)
                if one is None:
                    return None
                seen.append(one)
            means.append(float(np.mean(tamed(seen))))
        return means

    return averages


@dataclass(frozen=True, kw_only=True)
class InProcess:
    """The carrier: it asks the clients of `Rounds` one after the other until the horizon is reached."""

    rounds: Rounds
    clients: Mapping[str, Averages]
    noise: NoiseSource
    play: Callable[[int, int], None]

    @cached_property
    def _names(self) -> Iterator[str]:
        return iter(self.clients)

    def run(self) -> State:
        """Run to the end of the horizon, and return the learner's state."""
        steps = {"gathering": self._gather, "playing": self._play_all, "collecting": self._collect}
        while (latest := self.rounds.pending()) is not None:
            steps[latest.state](latest, self.rounds.plan(latest.phase))
        return self.rounds.state

    def _gather(self, latest: Attempt, plan: Plan) -> None:
        joining = self.rounds.fresh(self._names, plan.cohort - latest.joined)
        self.rounds.join(*joining)
        joined, minimum = latest.joined + len(joining), self.rounds.minimum(plan)
        if joined < minimum:
            expected = f"at least {minimum:,} for phase {plan.phase}: each takes part once"
            raise InvalidValue("clients", f"{joined:,} that have not taken part before", expected)
        self.rounds.end_wait()

    def _play_all(self, latest: Attempt, plan: Plan) -> None:
        for action, plays in play_order(plan, attempt=latest.number):
            self.play(action, plays)
        self.rounds.record_rounds(latest.phase, latest.number, plan.rounds)

    def _collect(self, latest: Attempt, plan: Plan) -> None:
        reports = self._reports(plan)
        while batch := list(islice(reports, _AT_ONCE)):
            self.rounds.accept(latest, batch)
        self.rounds.end_wait()

    def _reports(self, plan: Plan) -> Iterator[tuple[str, Report]]:
        for name in self.rounds.unreported():
            seen = self.clients[name](plan) if name in self.clients else None
            if seen is not None:
                yield name, respond_with_averages(plan, seen, self.noise)
