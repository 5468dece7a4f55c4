"""`session`: runs a study in the user's own loop, which can be interrupted and resumed.

    with dp.session(study, file="study.sqlite", options=options) as s:
        while (task := s.ask(people)) is not None:
            for person in task.people:
                s.tell(person, {option: rate(person, option, plays) for option, plays in task.plays.items()})
        print(s.found())

The rules of `dpbandits.rounds` hold: each person takes part once, an answer counts once, and a phase has one
release. Each call writes its changes to the file before it returns. After an interruption, start the same
program again: `ask` returns the people of the current phase who have not answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from types import TracebackType

from dpbandits.answers import answer_of
from dpbandits.choosing._choose import found_of
from dpbandits.choosing._found import Found
from dpbandits.choosing._people import Ran
from dpbandits.choosing._session_file import SessionSettings, agreed, checked_settings, open_session_store
from dpbandits.choosing._session_task import Rewards, SessionTask, averages_of, task_of
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, Report, Study, respond_with_averages
from dpbandits.rounds import Deadlines, Rounds
from dpbandits.storage import Attempt, Store

_NO_DEADLINE = Deadlines(report_seconds=1e10)  # three centuries: the user's loop decides when a phase ends
_AT_ONCE = 500  # answers that are stored in one transaction


def session(
    study: Study | str | Path,
    *,
    file: str | Path | None = None,
    options: Options | None = None,
    reward_range: tuple[float, float] | None = None,
    noise: NoiseSource | None = None,
) -> Session:
    """Begin or resume a study that your own loop runs with `ask` and `tell`.

    This process acts for all parties. So the guarantee holds against everybody who sees the result but not
    this process or its file. The file contains reports until their phase is released.

    Args:
        study: A study with assignment `everyone` and at least two actions, for example from `plan_study`; or
            the file of a session that began before. The file contains all settings except the noise.
        file: The file of the session. It is created, or resumed if it exists. Without a file the session is
            kept in memory and ends with the process.
        options: The options whose rows are the study's actions. Without them the options are named
            `action 0`, `action 1` and so on.
        reward_range: The range of single rewards in your units. It is mapped to [−bound, bound] of the study,
            and results are mapped back. A reward outside is clipped. The default is `Study.reward_range`. If
            that is None too, rewards are on the scale of the study.
        noise: The source of the privacy noise; secure by default. A session that began with simulated noise
            must be resumed with simulated noise, and one with secure noise with secure noise.

    Returns:
        The session. It is a context manager, which closes the file.

    Raises:
        InvalidValue: An argument is not accepted, or differs from the one with which the session began.
        StorageError: The file cannot be opened.
        FloatingPointNoise: The study requests noise in floating point, and `noise` is not simulated.

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> options = dp.Options.from_table({"name": ["a", "b"], "price": [1, 2]})
        >>> schedule = dp.Schedule(cohorts=(50,), first_length=4)
        >>> study = dp.Study(actions=options.actions, horizon=100, schedule=schedule)
        >>> with dp.session(study, options=options, noise=dp.SimulatedNoise(np.random.default_rng(1))) as s:
        ...     task = s.ask()
        ...     print(task.phase, len(task.people), task.plays)
        1 50 {'a': 2, 'b': 2}
    """
    if not isinstance(study, Study | str | Path):
        raise InvalidValue("study", type(study).__name__, "a Study, or the file of a session")
    source = noise or SecureNoise()
    given = None
    if isinstance(study, Study):
        given = checked_settings(study, options, reward_range, source)
    elif file is not None or options is not None or reward_range is not None:
        raise InvalidValue("study", str(study), "a Study, if file, options or reward_range are given")
    path = file if isinstance(study, Study) else study
    store = open_session_store(path, resume=given is None)
    try:
        return Session(agreed(store, given, path, source), store, source)
    except BaseException:
        store.close()
        raise


class Session:
    """A study that runs in the user's own loop; see `session`.

    Args:
        settings: The study, the options, and whether the noise is simulated.
        store: The store of the session.
        noise: The source of the privacy noise.

    Attributes:
        settings: The study, the options, and whether the noise is simulated.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> options = examples.options()
        >>> with dp.session(examples.study(options), options=options, noise=examples.noise()) as s:
        ...     task = s.ask()
        ...     s.tell_all({person: {"a": 0.9, "b": 0.1} for person in task.people})
        ...     print(s.over, s.found().best)
        True a
    """

    def __init__(self, settings: SessionSettings, store: Store, noise: NoiseSource) -> None:
        self.settings = settings
        self._store, self._noise = store, noise
        self._rounds = Rounds(settings.study, store, deadlines=_NO_DEADLINE, noise=noise)
        self._task: SessionTask | None = None
        self._left = dict[str, None]()  # people of the task who have not answered, in order

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. It contains every answer that was told."""
        self._store.close()

    @property
    def over(self) -> bool:
        """Whether the study has ended, so that nobody is asked any more."""
        return self._rounds.state.ended

    def needed(self) -> int:
        """Return how many new people the next `ask` takes; 0 while people of a task have not answered."""
        latest = self._settled()
        if latest is None or latest.state != "gathering":
            return 0
        return self._rounds.plan(latest.phase).cohort - latest.joined

    def ask(self, people: Iterable[str] | None = None) -> SessionTask | None:
        """Return what to do next. The task is written to the file before this call returns.

        If people of the current phase have not answered, the task contains these people, and nobody new takes
        part. Otherwise the next phase, if there is one, takes as many people as it needs.

        Args:
            people: Names of people who may be asked. A name stands for one person in the whole study. Names
                of people who took part before are left out, and the others are taken in order. If None, names
                are made up; give each of them to a person who did not take part before.

        Returns:
            The task; None if the study has ended.

        Raises:
            InvalidValue: `people` has fewer new names than the phase needs at least, or a name is not a
                string or is empty. Nobody is asked then.
        """
        if isinstance(people, str):
            raise InvalidValue("people", repr(people), "a list of names")
        latest = self._settled()
        if latest is None or self.over:
            return None
        plan = self._rounds.plan(latest.phase)
        if latest.state == "gathering":
            self._gather(latest, plan, people)
            self._rounds.end_wait()
            latest = self._rounds.settle()
            assert latest is not None
            self._rounds.record_rounds(latest.phase, latest.number, plan.rounds)
            latest = self._rounds.settle()
            assert latest is not None
        return self._current(latest, plan)

    def tell(self, person: str, rewards: Rewards | None) -> None:
        """Record the answer of one person. It is written to the file before this call returns.

        When the last person of a task has answered, the phase is released. If fewer people answered than the
        phase needs at least, nothing is released, and the next `ask` takes new people.

        Args:
            person: One of the people of the task.
            rewards: For each option of the task, the average reward of its plays, or a list with one reward
                per play. None if the person does not answer. This is not stored: after an interruption `ask`
                may return the person again.

        Raises:
            InvalidValue: The person does not belong to the task or has answered already, the options are not
                those of the task, or a reward is not a finite number. The message never contains a reward.
        """
        self.tell_all({person: rewards})

    def tell_all(self, answers: Mapping[str, Rewards | None]) -> None:
        """Record the answers of several people. This is faster than one call of `tell` per person.

        Args:
            answers: For each person, the rewards as in `tell`.

        Raises:
            InvalidValue: As in `tell`. None of the answers is recorded then.
        """
        task, latest = self._task or self.ask(()), self._rounds.current()
        if task is None or latest is None:
            raise InvalidValue("person", next(iter(answers), ""), "nobody: the study is over")
        for person in answers:
            if person not in self._left:
                expected = "a person of the current task who has not answered"
                raise InvalidValue("person", repr(person), expected)
        told = [(name, self._report(task, name, own)) for name, own in answers.items() if own is not None]
        try:
            for first in range(0, len(told), _AT_ONCE):
                self._rounds.accept(latest, told[first : first + _AT_ONCE])
        except BaseException:
            self._task = None  # some answers may be stored: the next `ask` reads who is left from the file
            raise
        for person in answers:
            del self._left[person]
        if not self._left:
            self._rounds.end_wait()
            self._settled()

    def found(self, *, level: float = 0.95) -> Found:
        """Return what was found so far, from the releases alone.

        Args:
            level: The probability with which each kind of interval covers the truth.

        Returns:
            The result. If no interval can be computed (see `answer_of`), the intervals are the range of
            rewards.

        Raises:
            InvalidValue: No phase was released yet, or `level` is not strictly between 0 and 1.
        """
        settings, state = self.settings, self._rounds.state
        if not state.history:
            raise InvalidValue("found", "no release", "at least one phase in which enough people answered")
        answer = answer_of(state, settings.options, level=level)
        return found_of(Ran(state=state), answer, simulated=settings.simulated)

    def __repr__(self) -> str:
        state = self._rounds.state
        doing = "over" if self.over else f"phase {state.phase}, {len(self._left):,} people still to answer"
        return (
            f"Session(study {self.settings.study.name[:12]}: {doing}; {state.clients_asked:,} asked before)"
        )

    def _settled(self) -> Attempt | None:
        """Take all steps that are due, record the rounds of phases, and forget a task that has ended."""
        latest = self._rounds.settle()
        while latest is not None and not self.over and latest.state == "playing":
            plan = self._rounds.plan(latest.phase)
            self._rounds.record_rounds(latest.phase, latest.number, plan.rounds)
            latest = self._rounds.settle()
        if self._task is not None and (
            latest is None or (self._task.phase, self._task.attempt) != (latest.phase, latest.number)
        ):
            self._task, self._left = None, {}
        return latest

    def _gather(self, latest: Attempt, plan: Plan, people: Iterable[str] | None) -> None:
        places, minimum = plan.cohort - latest.joined, self._rounds.minimum(plan)
        made = (f"person {plan.phase}.{latest.number}.{number}" for number in count(1))
        names = self._rounds.fresh(iter(_distinct(made if people is None else people)), places)
        if latest.joined + len(names) < minimum:
            got = f"{latest.joined + len(names):,} who did not take part before"
            raise InvalidValue("people", got, f"at least {minimum:,} for phase {plan.phase}")
        self._rounds.join(*names)

    def _current(self, latest: Attempt, plan: Plan) -> SessionTask:
        if self._task is None:
            self._left = dict.fromkeys(self._rounds.unreported())
        self._task = task_of(plan, latest.number, tuple(self._left), self.settings.options)
        return self._task

    def _report(self, task: SessionTask, person: str, rewards: object) -> Report:
        averages = averages_of(self.settings.study, task, person, rewards)
        return respond_with_averages(task.plan, averages, self._noise)


def _distinct(names: Iterable[object]) -> Iterable[str]:
    """Yield each name once, since a name that is given twice is the same person."""
    seen = set[str]()
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidValue("people", repr(name), "names: strings that are not empty")
        if name not in seen:
            seen.add(name)
            yield name
