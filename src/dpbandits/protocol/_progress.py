"""`Progress`: one record per phase of what a study has learnt, created by `tell`.

A record is computed from releases alone, so it is as private as they are. It may be stored, served and
plotted:

    for one in state.progress:
        print(one.phase, one.actions_left, one.leader, one.interval)
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """What is known after one phase, and how many rounds and clients it took.

    Attributes:
        phase: The phase, counted from 1.
        actions_left: How many actions may still be best after the phase.
        leader: The index of the best guess, which is played once no more clients are asked. While more than
            2¹⁴ actions are close to the leader, it is the best action by this phase's estimate alone.
        estimated_mean: The mean reward of the leader by the last phase or, in a study that pools
            (`Study.pools`), by all phases together; None before the first release.
        width: The confidence width of that mean. For each action, the error exceeds it, on each side, with a
            probability of at most `Study.bound_failure`. None before the first release.
        largest_width: The largest width that decided which actions stay, see `State.width`. None before the
            first release. With the step `differences` it is the width of a difference of two actions.
        cohort: How many clients the phase asked; 0 if it asked nobody.
        reports: How many of them reported; 0 if it asked nobody.
        rounds_played: The number of rounds in this phase and all earlier ones.
        clients_asked: The number of clients asked in this phase and all earlier ones.
        requested_epsilon: The ε that the mechanism of the phase was calibrated to; None without privacy, or
            if nobody was asked. `dpbandits.privacy.guarantee` computes the ε that holds; it may take seconds.
        requested_delta: The δ that the mechanism was calibrated to; None in the same cases.

    Example:
        >>> from dpbandits import examples
        >>> state = examples.after_one_phase(examples.study())
        >>> progress = state.progress[-1]
        >>> progress.phase, progress.actions_left, progress.cohort
        (1, 1, 20)
    """

    phase: int
    actions_left: int
    leader: int
    estimated_mean: float | None
    width: float | None
    largest_width: float | None
    cohort: int
    reports: int
    rounds_played: int
    clients_asked: int
    requested_epsilon: float | None
    requested_delta: float | None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The confidence interval of the leader's mean reward; None before the first release."""
        if self.estimated_mean is None or self.width is None:
            return None
        return self.estimated_mean - self.width, self.estimated_mean + self.width
