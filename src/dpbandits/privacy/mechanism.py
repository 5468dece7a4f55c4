"""The Privatizer of one phase: R at each client, S at the third party, A at the server.

A mechanism is one frozen value that owns three things together, so that none can be changed without
the others: its samplers (`randomize`, `shuffle`, `analyze`), what it spends (`event`), and the error
it leaves on the mean (`error_radius`), from which the confidence widths are computed.

Privacy never rests on an assumption about the data: `randomize` clips first, always: each average to
[−bound, bound], or the whole row to the ball of that radius.
Fewer than `minimum_reports` answers are never analyzed: noise that clients share is calibrated to them.

A new mechanism is one short file: a frozen keyword-only dataclass that derives from `Mechanism`, has a
field `kind` with its name as default, and is decorated with `@register`. If it says how it is `calibrated`, a
`PrivacyRequest` may ask for it by that name as its noise, and every study and simulation can run with it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from dpbandits.checks import one_of, positive, whole
from dpbandits.errors import InvalidValue, NotAvailable, TooFewReports
from dpbandits.privacy.accounting import Event
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.tails import Spread, squared_norms, sub_gaussian_factor, sub_gaussian_radius

SHAPES = ("box", "ball")
_ABSURD = 1e9

FloatArray = NDArray[np.float64]
Payload = NDArray[Any]  # float64 values, int64 encoded values or uint8 bits; the mechanism says which


@dataclass(frozen=True, kw_only=True)
class Message:
    """What one client's answer looks like: an array of such a shape and kind, every entry in [low, high]."""

    kind: str  # "numbers" (float64), "integers" (int64) or "bits" (uint8)
    shape: tuple[int, ...]
    low: float
    high: float


class Mechanism(ABC):
    """R, S and A for a cohort of `cohort` clients that report `support` averages each."""

    kind: str
    support: int
    cohort: int
    bound: float
    shape: str = "box"
    """Whether each average is clipped to [−bound, bound], or the row of them to the ball of that radius."""

    trust: ClassVar[str]
    unit: ClassVar[str]
    needs: ClassVar[str]
    """What the guarantee rests on, besides the noise."""
    pure: ClassVar[bool] = False
    """Whether δ = 0 may be asked of it, where it is asked for by name."""

    @classmethod
    def calibrated(
        cls,
        request: Any,  # noqa: ARG003
        *,
        support: int,  # noqa: ARG003
        cohort: int,  # noqa: ARG003
        bound: float,  # noqa: ARG003
        least: int,  # noqa: ARG003
    ) -> Mechanism:
        """The mechanism that gives a `PrivacyRequest` its (ε, δ) when `least` of the cohort answer."""
        raise NotAvailable(f"noise: got {cls.kind}, which cannot be asked for by name")

    def __post_init__(self) -> None:
        one_of(SHAPES, shape=self.shape)
        whole(1, support=self.support)
        whole(1, cohort=self.cohort)
        positive(bound=self.bound)

    @property
    def noise_name(self) -> str:
        """The law of its noise, where it has one by name."""
        return str(getattr(self, "noise", self.kind))

    @property
    def minimum_reports(self) -> int:
        """With fewer answers than this nothing is released."""
        return 1

    @final
    def clip(self, averages: FloatArray) -> FloatArray:
        """What bounds the sensitivity: every row is forced into the box, or the ball."""
        if np.isnan(averages).any():
            raise InvalidValue("averages", "NaN", "numbers: a client without rewards must not report")
        if self.shape == "box":
            return np.clip(averages, -self.bound, self.bound)
        return _into_ball(averages, self.bound)

    @final
    def entries_cut(self, averages: FloatArray) -> int:
        """How many numbers clipping changes."""
        if self.shape == "box":
            return int(np.count_nonzero(np.abs(averages) > self.bound))
        return self.support * int(np.count_nonzero(squared_norms(averages) > self.bound**2))

    @final
    def randomize(self, averages: FloatArray, noise: NoiseSource) -> Payload:
        """R, at the client: a row of `support` averages per client becomes a row to be sent."""
        return self._randomize(self.clip(averages), noise)

    @final
    def analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        """A, at the server: the private mean, over `reports` clients, of each of the averages."""
        if reports < self.minimum_reports:
            raise TooFewReports(reports, self.minimum_reports)
        return self._analyze(batch, whole(1, self.cohort, reports=reports), noise)

    @final
    def simulate(self, averages: FloatArray, noise: NoiseSource) -> FloatArray:
        """Draw A(S(R(averages))) from its exact distribution without building the messages."""
        return self.simulate_blocks([averages], noise)

    @final
    def simulate_blocks(self, blocks: Iterable[FloatArray], noise: NoiseSource) -> FloatArray:
        """The same for a cohort that comes a block of rows at a time, to spare memory."""
        total, reports = np.zeros(self.support), 0
        for block in blocks:
            part = self._simulated_sum(self.clip(block), noise)
            total, reports = part if reports == 0 else total + part, reports + len(block)
        return self._simulated_mean(total, reports, noise)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """S, at the third party. Outside the shuffle model it passes everything on."""
        return payloads

    @abstractmethod
    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload: ...

    @abstractmethod
    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray: ...

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """What some clients' rows contribute to a sum, without the noise that all of them share."""
        total: FloatArray = clipped.sum(axis=0)
        return total

    @abstractmethod
    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        """From the sum of all contributions to what is released."""

    @cached_property
    def message(self) -> Message:
        """What a reader of one client's answer must check before it counts: finite numbers, by default."""
        return Message(kind="numbers", shape=(self.support,), low=-math.inf, high=math.inf)

    @property
    def sum_bits(self) -> int:
        """The sums of whole-number answers are known modulo 2^this; enough for a whole cohort."""
        return 63

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """A batch that is analyzed to the same as one whose answers have these sums."""
        return sums[None, :]

    @property
    def message_size(self) -> int:
        """What one client sends, in `unit`: one number an action, unless a mechanism says otherwise."""
        return self.support

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one replaced client's trace in the untrusted party's view costs."""

    @abstractmethod
    def error_deviation(self, reports: int) -> float:
        """The standard deviation, at most, of the error of each coordinate of the mean."""

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """For each row a, what ⟨a, error⟩ + G exceeds with probability at most `confidence`.

        G is independent and sub-Gaussian with the row's `other_variance`. This default is right for
        mechanisms whose error is sub-Gaussian with proxy `error_deviation`.
        """
        own = self.error_deviation(reports) ** 2 * squared_norms(coefficients)
        return sub_gaussian_radius(other_variance + own, confidence)

    def radius_factors(self, spread: Spread, confidence: float, reports: int) -> tuple[float, float]:  # noqa: ARG002
        """What `error_radius` is at least and at most, as multiples of √V, for all rows of such a spread.

        V is `other_variance` plus error_deviation²·‖a‖². Of a mechanism that has an `error_radius` of its
        own and says nothing here, nothing is known.
        """
        if type(self).error_radius is not Mechanism.error_radius:
            return 0.0, math.inf
        return (sub_gaussian_factor(confidence),) * 2


def _into_ball(rows: FloatArray, radius: float) -> FloatArray:
    """Rows that are too long are shortened."""
    tame = np.clip(rows, -_ABSURD * radius, _ABSURD * radius)  # so that squares do not overflow
    lengths = np.linalg.norm(tame, axis=-1, keepdims=True)
    shortened: FloatArray = tame * (radius / np.maximum(lengths, radius))
    return shortened


MECHANISMS: dict[str, type[Mechanism]] = {}

SomeMechanism = TypeVar("SomeMechanism", bound=type[Mechanism])


def register(mechanism: SomeMechanism) -> SomeMechanism:
    """Make a mechanism known by its `kind`, so that stored plans can be read back."""
    MECHANISMS[mechanism.kind] = mechanism
    return mechanism


def by_name(trust: str) -> dict[str, type[Mechanism]]:
    """The registered mechanisms of a trust model that say how they are calibrated."""
    inherited = Mechanism.calibrated.__func__  # type: ignore[attr-defined]
    return {
        kind: mechanism
        for kind, mechanism in MECHANISMS.items()
        if mechanism.trust == trust and mechanism.calibrated.__func__ is not inherited  # type: ignore[attr-defined]
    }
