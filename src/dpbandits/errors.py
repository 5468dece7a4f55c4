"""Every error that dpbandits raises on purpose.

    DpbanditsError
    ├── InvalidValue            (also a ValueError) an argument or a file's content cannot be used
    ├── NotEnoughClients        the study needs more clients than the population still has
    ├── PrivacyError
    │   ├── OutsideTheorem      a parameter lies outside the conditions under which privacy is proved
    │   ├── NotAvailable        no proved mechanism exists for what was asked
    │   ├── FloatingPointNoise  noise with holes was asked for outside a simulation
    │   └── TooFewReports       fewer answers than the noise was calibrated for: nothing is released
    ├── DesignError             no design with the promised bounds was found
    ├── StorageError            the store cannot be reached or written; nothing was changed
    │   └── StoreWentBack       an old copy of the store was put back: the study stops
    ├── Unreachable             another party of a deployed study does not respond; retry later
    └── ProtocolError
        ├── PlanMismatch        a message belongs to another plan than the one at hand
        ├── StudyEnded          the horizon is reached: there is nothing left to ask
        └── Refused             a party of a deployed study may not do what it asked for

A message names what was given and what would do. It never contains a reward.
"""

from __future__ import annotations


class DpbanditsError(Exception):
    """The root of the tree."""


class InvalidValue(DpbanditsError, ValueError):  # noqa: N818  (a value, not an "Error", is what is wrong)
    """An argument or a file's content cannot be used: `field` was `value`, `expected` would do."""

    def __init__(self, field: str, value: object, expected: str) -> None:
        self.field = field
        self.value = value
        self.expected = expected
        super().__init__(f"{field}: got {value}, expected {expected}")

    def __reduce__(self) -> tuple[type[InvalidValue], tuple[str, object, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.field, self.value, self.expected)


class NotEnoughClients(DpbanditsError):  # noqa: N818
    """The study needs more clients than the population still has."""

    def __init__(self, needed: int, population: int) -> None:
        self.needed = needed
        self.population = population
        super().__init__(
            f"population: this study needs up to {needed:,} clients, each serving once, but the "
            f"population has {population:,}; lower alpha or the horizon, cap the cohort, enlarge the "
            "population, or set when-clients-run-out to stop"
        )

    def __reduce__(self) -> tuple[type[NotEnoughClients], tuple[int, int]]:
        """Survive the way back from a worker process."""
        return type(self), (self.needed, self.population)


class PrivacyError(DpbanditsError):
    """A privacy guarantee that was asked for cannot be given."""


class OutsideTheorem(PrivacyError):  # noqa: N818
    """A parameter lies outside the conditions under which privacy is proved."""


class NotAvailable(PrivacyError):  # noqa: N818
    """No proved mechanism exists for what was asked."""


class FloatingPointNoise(PrivacyError):  # noqa: N818
    """Noise with holes was asked for outside a simulation."""


class TooFewReports(PrivacyError):  # noqa: N818
    """Fewer answers than the noise was calibrated for: nothing is released."""

    def __init__(self, reports: int, minimum: int) -> None:
        self.reports = reports
        self.minimum = minimum
        super().__init__(f"reports: got {reports:,}, expected at least {minimum:,}: nothing is released")

    def __reduce__(self) -> tuple[type[TooFewReports], tuple[int, int]]:
        """Survive the way back from a worker process."""
        return type(self), (self.reports, self.minimum)


class DesignError(DpbanditsError):
    """No design with the promised bounds was found."""


class StorageError(DpbanditsError):
    """The store cannot be reached or written; nothing was changed."""


class StoreWentBack(StorageError):  # noqa: N818
    """An old copy of the store was put back: nothing is released and nobody is asked."""


class Unreachable(DpbanditsError):  # noqa: N818
    """Another party of a deployed study does not respond. The call may be repeated later."""


class ProtocolError(DpbanditsError):
    """A message does not fit the state of the study."""


class PlanMismatch(ProtocolError):  # noqa: N818
    """A message belongs to another plan than the one at hand."""


class StudyEnded(ProtocolError):  # noqa: N818
    """The horizon is reached: there is nothing left to ask."""


class Refused(ProtocolError):  # noqa: N818
    """A party of a deployed study may not do what it asked for; `reason` is one of a few words."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        self.message = message
        super().__init__(f"{reason}: {message}")

    def __reduce__(self) -> tuple[type[Refused], tuple[str, str]]:
        """Survive the way back from a worker process."""
        return type(self), (self.reason, self.message)
