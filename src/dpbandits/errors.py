"""Exception classes: every error that dpbandits raises on purpose.

    DpbanditsError
    ├── InvalidValue            (also a ValueError) an argument or the content of a file is not accepted
    ├── NotEnoughClients        the study needs more clients than the population still has
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
    """Base class of all errors that dpbandits raises on purpose."""


class InvalidValue(DpbanditsError, ValueError):  # noqa: N818  (a value, not an "Error", is what is wrong)
    """An argument or the content of a file is not accepted.

    Attributes:
        field: The name of the argument, option or file location, for example `epsilon`.
        value: The value that was given.
        expected: A description of the accepted values, for example `a finite number > 0`.
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
    """The study needs more clients than the population still has.

    Attributes:
        needed: The largest number of clients that the study can need.
        population: The number of clients in the population.
    """

    def __init__(self, needed: int, population: int) -> None:
        self.needed = needed
        self.population = population
        super().__init__(
            f"population: this study needs up to {needed:,} clients, each serving once, but the "
            f"population has {population:,}; lower alpha or the horizon, cap the cohort, enlarge the "
            "population, or set when-clients-run-out to stop"
        )

    def __reduce__(self) -> tuple[type[NotEnoughClients], tuple[int, int]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.needed, self.population)


class PrivacyError(DpbanditsError):
    """A requested privacy guarantee cannot be given."""


class OutsideTheorem(PrivacyError):  # noqa: N818
    """A parameter lies outside the conditions under which privacy is proved."""


class NotAvailable(PrivacyError):  # noqa: N818
    """No proved mechanism exists for the requested combination."""


class FloatingPointNoise(PrivacyError):  # noqa: N818
    """Floating-point noise was requested outside a simulation.

    Floating-point samplers cannot return every number near a given one. These gaps can reveal the value that
    the noise should hide (Mironov 2012).
    """


class TooFewReports(PrivacyError):  # noqa: N818
    """Fewer reports arrived than the noise was calibrated for; nothing is released.

    Attributes:
        reports: The number of reports that arrived.
        minimum: The least number of reports for which the noise suffices.
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
    """No design with the promised bounds was found."""


class StorageError(DpbanditsError):
    """The store cannot be reached or written; nothing was changed."""


class StoreWentBack(StorageError):  # noqa: N818
    """The store was replaced by an older copy; nothing is released and no client is asked."""


class Unreachable(DpbanditsError):  # noqa: N818
    """Another party of a deployed study does not respond; the call may be retried later."""


class ProtocolError(DpbanditsError):
    """A message does not fit the state of the study."""


class PlanMismatch(ProtocolError):  # noqa: N818
    """A message belongs to a different plan."""


class StudyEnded(ProtocolError):  # noqa: N818
    """The horizon is reached; there is no next phase."""


class Refused(ProtocolError):  # noqa: N818
    """A party of a deployed study requested something it may not do.

    Attributes:
        reason: A short code for the reason, one of a fixed list.
        message: A sentence for people.
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        """Return the class and its arguments, for pickling."""
        return type(self), (self.reason, self.message)
