"""Exception classes: every error that dpbandits raises on purpose.

    DpbanditsError
    ├── InvalidValue            (also a ValueError) an argument or the content of a file is not accepted
    ├── NotEnoughClients        the study needs more clients than the population has
    ├── PrivacyError
    │   ├── OutsideTheorem      a parameter lies outside the conditions under which privacy is proved
    │   ├── NotAvailable        no proved mechanism exists for the requested combination
    │   ├── FloatingPointNoise  floating-point noise was requested outside a simulation
    │   └── TooFewReports       fewer reports than the noise was calibrated for; nothing is released
    ├── WorkersLost             workers of a sweep ended; finished runs are kept in its checkpoint
    ├── DesignError             no design with the promised bounds was found
    ├── StorageError            the store cannot be reached or written; nothing was changed
    │   └── StoreWentBack       the store was replaced by an older copy; the study stops
    ├── Unreachable             another party of a deployed study does not respond; retry later
    └── ProtocolError
        ├── PlanMismatch        a message belongs to a different plan
        ├── StudyEnded          the horizon is reached; there is no next phase
        └── Refused             a party of a deployed study requested something it may not do

A message names the field, the value that was given and what is accepted, for example
`epsilon: got -1, expected a finite number > 0`. A message never contains a reward.

The errors with several arguments define `__reduce__`, so that they can be pickled and sent back from a worker
process: by default, pickle calls the class with the formatted message only.
"""

from __future__ import annotations


class DpbanditsError(Exception):
    """Base class of all errors that dpbandits raises on purpose.

    Example:
        >>> import dpbandits as dp
        >>> try:
        ...     dp.PrivacyRequest(trust="central", epsilon=-1)
        ... except dp.DpbanditsError as error:
        ...     print(error)
        epsilon: got -1, expected a finite number > 0
    """


class InvalidValue(DpbanditsError, ValueError):  # noqa: N818  (a value, not an "Error", is what is wrong)
    """An argument or the content of a file is not accepted.

    Attributes:
        field: The name of the argument, option or file location, for example `epsilon`.
        value: The value that was given.
        expected: A description of the accepted values, for example `a finite number > 0`.

    Example:
        >>> from dpbandits.errors import InvalidValue
        >>> error = InvalidValue("epsilon", -1, "a finite number > 0")
        >>> print(error)
        epsilon: got -1, expected a finite number > 0
        >>> error.field, error.value
        ('epsilon', -1)
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{field}: got {value}, expected {expected}")

    def __reduce__(self) -> tuple[type[InvalidValue], tuple[str, object, str]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.field, self.value, self.expected)


class NotEnoughClients(DpbanditsError):  # noqa: N818
    """The study needs more clients than the population has.

    Attributes:
        needed: The largest number of clients that the study can need.
        population: The number of clients in the population.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.errors import NotEnoughClients
        >>> actions = dp.Actions([[1, 0], [0, 1]])
        >>> schedule = dp.Schedule(cohorts=(50,), first_length=10)
        >>> try:
        ...     dp.Study(actions=actions, horizon=100, schedule=schedule, population=20)
        ... except NotEnoughClients as error:
        ...     print(error.needed, error.population)
        50 20
    """

    def __init__(self, needed: int, population: int) -> None:
        self.needed = needed
        self.population = population
        super().__init__(
            f"population: this study needs up to {needed:,} clients, each serving once, but the "
            f"population has {population:,}; ask fewer clients (smaller cohorts, a lower alpha or a shorter "
            'horizon), enlarge the population, or set when_clients_run_out to "stop"'
        )

    def __reduce__(self) -> tuple[type[NotEnoughClients], tuple[int, int]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.needed, self.population)


class PrivacyError(DpbanditsError):
    """A requested privacy guarantee cannot be given.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.errors import PrivacyError
        >>> try:
        ...     dp.PrivacyRequest(trust="shuffle", noise="skellam", delta=0)
        ... except PrivacyError as error:
        ...     print(error)
        noise: got skellam with delta 0, expected polya, or delta > 0
    """


class OutsideTheorem(PrivacyError):  # noqa: N818
    """A parameter lies outside the conditions under which privacy is proved.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.errors import OutsideTheorem
        >>> from dpbandits.privacy import calibrate
        >>> request = dp.PrivacyRequest(trust="shuffle", preset="paper", epsilon=20, delta=1e-6)
        >>> try:
        ...     calibrate(request, coordinates=4, cohort=100, bound=1)
        ... except OutsideTheorem as error:
        ...     print(error)
        epsilon: got 20, expected < 15 (the paper's shuffle theorem)
    """


class NotAvailable(PrivacyError):  # noqa: N818
    """No proved mechanism exists for the requested combination.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.errors import NotAvailable
        >>> try:
        ...     dp.PrivacyRequest(trust="central", noise="discrete-gaussian", delta=0)
        ... except NotAvailable as error:
        ...     print(error)
        noise: got discrete-gaussian with delta 0, expected laplace, k-norm, ball-norm, or delta > 0
    """


class FloatingPointNoise(PrivacyError):  # noqa: N818
    """Floating-point noise was requested outside a simulation.

    Floating-point samplers cannot return every number near a given one. These gaps can reveal the value that
    the noise should hide (Mironov 2012).

    Example:
        >>> from dpbandits.errors import FloatingPointNoise
        >>> from dpbandits.privacy import SecureNoise
        >>> from dpbandits.privacy.noise import simulated_only
        >>> try:
        ...     simulated_only(SecureNoise())
        ... except FloatingPointNoise as error:
        ...     print(error)
        noise: got gaussian, expected discrete-gaussian: floating-point noise is for simulations only
    """


class TooFewReports(PrivacyError):  # noqa: N818
    """Fewer reports arrived than the noise was calibrated for; nothing is released.

    Attributes:
        reports: The number of reports that arrived.
        minimum: The least number of reports for which the noise suffices.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> from dpbandits.errors import TooFewReports
        >>> try:
        ...     dp.shuffle(examples.plan(), [], examples.noise())
        ... except TooFewReports as error:
        ...     print(error)
        reports: got 0, expected at least 1: nothing is released
    """

    def __init__(self, reports: int, minimum: int) -> None:
        self.reports = reports
        self.minimum = minimum
        super().__init__(f"reports: got {reports:,}, expected at least {minimum:,}: nothing is released")

    def __reduce__(self) -> tuple[type[TooFewReports], tuple[int, int]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.reports, self.minimum)


class WorkersLost(DpbanditsError):  # noqa: N818
    """The workers of a sweep ended before their runs did.

    Finished runs are in the checkpoint, so the same sweep with the same checkpoint runs only the others.

    Attributes:
        unfinished: The number of runs that are missing.
        reason: The error that the engine reported.

    Example:
        >>> from dpbandits.errors import WorkersLost
        >>> error = WorkersLost(3, "KilledWorker")
        >>> error.unfinished, str(error)[:28]
        (3, 'workers: lost (KilledWorker)')
    """

    def __init__(self, unfinished: int, reason: str) -> None:
        self.unfinished = unfinished
        self.reason = reason
        super().__init__(
            f"workers: lost ({reason}) before {unfinished:,} runs were finished; the same sweep with the "
            "same checkpoint runs only these"
        )

    def __reduce__(self) -> tuple[type[WorkersLost], tuple[int, str]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.unfinished, self.reason)


class DesignError(DpbanditsError):
    """No design with the promised bounds was found.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.errors import DesignError
        >>> actions = dp.Actions.generate("sphere", count=50, dimension=5, rng=1)
        >>> try:
        ...     dp.near_g_optimal(actions.matrix, max_support=2)
        ... except DesignError as error:
        ...     print(str(error)[:40])
        no design within the bounds was found fo
    """


class StorageError(DpbanditsError):
    """The store cannot be reached or written; nothing was changed.

    Example:
        >>> from dpbandits.errors import StorageError
        >>> from dpbandits.storage import open_store
        >>> try:
        ...     open_store("sqlite:////nowhere/study.sqlite")
        ... except StorageError as error:
        ...     print("nothing was changed")
        nothing was changed
    """


class StoreWentBack(StorageError):  # noqa: N818
    """The store was replaced by an older copy; nothing is released and no client is asked.

    Example:
        >>> from dpbandits.errors import StorageError, StoreWentBack
        >>> issubclass(StoreWentBack, StorageError)
        True
    """


class Unreachable(DpbanditsError):  # noqa: N818
    """Another party of a deployed study does not respond; the call may be retried later.

    Example:
        >>> from dpbandits.errors import Unreachable
        >>> from dpbandits.service.actuator import Actuator
        >>> from dpbandits.service.shared import Backoff, Transport
        >>> with Transport(patience=Backoff(tries=1)) as transport:
        ...     try:
        ...         Actuator("http://127.0.0.1:9", "token", transport).play()
        ...     except Unreachable:
        ...         print("retry later")
        retry later
    """


class ProtocolError(DpbanditsError):
    """A message does not fit the state of the study.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> from dpbandits.errors import ProtocolError
        >>> try:
        ...     dp.respond_with_averages(examples.plan(), [0.5], examples.noise())
        ... except ProtocolError as error:
        ...     print(error)
        averages: got 1, expected 2, one per action
    """


class PlanMismatch(ProtocolError):  # noqa: N818
    """A message belongs to a different plan.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> from dpbandits.errors import PlanMismatch
        >>> plan, state = examples.plan(), examples.after_one_phase(examples.study())
        >>> try:
        ...     dp.tell(state, plan, examples.release(plan))
        ... except PlanMismatch as error:
        ...     print("another phase")
        another phase
    """


class StudyEnded(ProtocolError):  # noqa: N818
    """The horizon is reached; there is no next phase.

    Example:
        >>> from dataclasses import replace
        >>> import dpbandits as dp
        >>> from dpbandits import examples
        >>> from dpbandits.errors import StudyEnded
        >>> try:
        ...     dp.ask(replace(examples.study().begin(), rounds_played=100))
        ... except StudyEnded as error:
        ...     print(error)
        all 100 rounds have been played; start a new study
    """


class Refused(ProtocolError):  # noqa: N818
    """A party of a deployed study requested something it may not do.

    Attributes:
        reason: A short code for the reason, one of a fixed list.
        message: A sentence for people.

    Example:
        >>> from dpbandits.errors import Refused
        >>> refusal = Refused("too-fast", "too many requests; wait")
        >>> refusal.reason, str(refusal)
        ('too-fast', 'too-fast: too many requests; wait')
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.reason, self.message)
