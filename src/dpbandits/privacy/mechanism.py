"""The Privatizer of one phase: R at each client, S at the third party, A at the server.

A mechanism is one frozen value that owns three things together, so that none can be changed without
the others: its samplers (`randomize`, `shuffle`, `analyze`), what it spends (`delta`), and the error
it leaves on the mean (`error_proxy`), from which the confidence widths are computed.

Privacy never rests on an assumption about the data: `randomize` clips to [−bound, bound] first, always.

A new mechanism is one short file: a frozen keyword-only dataclass that derives from `Mechanism`, has a
field `kind` with its name as default, and is decorated with `@register`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dpbandits.checks import positive, whole
from dpbandits.errors import InvalidValue
from dpbandits.privacy.noise import FloatArray, NoiseSource

Payload = NDArray[Any]  # float64 values or uint8 bits; the mechanism says which


class Mechanism(ABC):
    """R, S and A for a cohort of `cohort` clients that report `support` averages each."""

    kind: str
    support: int
    cohort: int
    bound: float

    trust: ClassVar[str]
    unit: ClassVar[str]
    accountant: ClassVar[str]

    def __post_init__(self) -> None:
        whole(1, support=self.support)
        whole(1, cohort=self.cohort)
        positive(bound=self.bound)

    @final
    def clip(self, averages: FloatArray) -> FloatArray:
        """What bounds the sensitivity: every average is forced into [−bound, bound]."""
        if np.isnan(averages).any():
            raise InvalidValue("averages", "NaN", "numbers: a client without rewards must not report")
        return np.clip(averages, -self.bound, self.bound)

    @final
    def randomize(self, averages: FloatArray, noise: NoiseSource) -> Payload:
        """R, at the client: a row of `support` averages per client becomes a row to be sent."""
        return self._randomize(self.clip(averages), noise)

    @final
    def simulate(self, averages: FloatArray, noise: NoiseSource) -> FloatArray:
        """Draw A(S(R(averages))) from its exact distribution without building the messages."""
        return self._simulate(self.clip(averages), noise)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """S, at the third party. Outside the shuffle model it passes everything on."""
        return payloads

    @abstractmethod
    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload: ...

    @abstractmethod
    def _simulate(self, clipped: FloatArray, noise: NoiseSource) -> FloatArray: ...

    @abstractmethod
    def analyze(self, batch: Payload, noise: NoiseSource) -> FloatArray:
        """A, at the server: the private mean of each of the `support` averages."""

    @property
    @abstractmethod
    def error_proxy(self) -> float:
        """The error of each coordinate of the mean is sub-Gaussian with this standard deviation."""

    @property
    @abstractmethod
    def message_size(self) -> int:
        """What one client sends, in `unit`."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """The δ that holds at ε for one client replaced, as `accountant` proves it."""


MECHANISMS: dict[str, type[Mechanism]] = {}

SomeMechanism = TypeVar("SomeMechanism", bound=type[Mechanism])


def register(mechanism: SomeMechanism) -> SomeMechanism:
    """Make a mechanism known by its `kind`, so that stored plans can be read back."""
    MECHANISMS[mechanism.kind] = mechanism
    return mechanism
