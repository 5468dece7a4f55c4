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
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, final

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue, NotAvailable, TooFewReports
from dpbandits.privacy._limits import checked_bound, checked_cohort, checked_coordinates
from dpbandits.privacy._message import Message, Payload, Reach
from dpbandits.privacy._registry import MECHANISMS, TRUST_MODELS
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.tails import Spread, squared_norms, sub_gaussian_factor, sub_gaussian_radius

if TYPE_CHECKING:
    from dpbandits.privacy._trust_model import TrustModel
    from dpbandits.privacy.accounting import Event

SHAPES = ("box", "ball")
_ABSURD = 1e9


__all__ = [
    "MECHANISMS",
    "SHAPES",
    "FloatArray",
    "Mechanism",
    "Message",
    "Payload",
    "Reach",
    "honest_clients",
    "register",
]


class Mechanism(ABC):
    """R, S and A for a cohort of `cohort` clients that report `coordinates` averages each."""

    kind: str
    coordinates: int
    cohort: int
    bound: float
    shape: str = "box"
    """Whether each average is clipped to [−bound, bound], or the row of them to the ball of that radius."""

    trust: ClassVar[str]
    unit: ClassVar[str]
    pure: ClassVar[bool] = False
    """Whether a request for it by name may have δ = 0."""
    simulated_only: ClassVar[bool] = False
    """Whether its noise uses floating point, which must not leave a machine."""

    @classmethod
    def calibrated(
        cls,
        request: Any,  # noqa: ARG003
        *,
        coordinates: int,  # noqa: ARG003
        cohort: int,  # noqa: ARG003
        bound: float,  # noqa: ARG003
        least: int,  # noqa: ARG003
    ) -> Mechanism:
        """The mechanism that gives a `PrivacyRequest` its (ε, δ) when `least` of the cohort answer."""
        raise NotAvailable(f"noise: got {cls.kind}, which cannot be asked for by name")

    @classmethod
    def by_name(cls) -> bool:
        """Whether a request may name it as its noise: it says how it is `calibrated`."""
        own, inherited = cls.calibrated, Mechanism.calibrated
        return own.__func__ is not inherited.__func__  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        one_of(SHAPES, shape=self.shape)
        checked_coordinates(self.coordinates)
        checked_cohort(self.cohort)
        checked_bound(self.bound)

    @property
    def noise_name(self) -> str:
        """The law of its noise, where it has one by name."""
        return str(getattr(self, "noise", self.kind))

    @property
    def minimum_reports(self) -> int:
        """With fewer answers than this nothing is released."""
        return 1

    @property
    def noisy_reports(self) -> int | None:
        """Honest clients, of `minimum_reports`, that must add their noise; None if no other client must."""
        return None

    @property
    def trust_model(self) -> TrustModel:
        """The trust model that it belongs to."""
        return TRUST_MODELS[self.trust]

    @property
    def rests_on(self) -> str:
        """Who must follow the protocol, and who must not collude, for the guarantee to hold."""
        return self.trust_model.rests_on

    @property
    def needs(self) -> str:
        """All that the guarantee rests on besides the noise: `rests_on`, and enough honest clients."""
        if self.noisy_reports is None:
            return self.rests_on
        return f"{self.rests_on}; {honest_clients([(self.noisy_reports, self.minimum_reports)])}"

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
        return self.coordinates * int(np.count_nonzero(squared_norms(_in_radii(averages, self.bound)) > 1))

    @final
    def randomize(self, averages: FloatArray, noise: NoiseSource) -> Payload:
        """R, at the client: a row of `coordinates` averages per client becomes a row to be sent."""
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
        total, reports = np.zeros(self.coordinates), 0
        for block in blocks:
            part = self._simulated_sum(self.clip(block), noise)
            total, reports = part if reports == 0 else total + part, reports + len(block)
        return self._simulated_mean(total, reports, noise)

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """S, at the third party. Outside the shuffle model it passes everything on."""
        return payloads

    def batch_shape(self, reports: int) -> tuple[int, ...]:
        """The shape of what `shuffle` returns for this many reports."""
        return (reports, *self.message.shape)

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
        return Message(kind="numbers", shape=(self.coordinates,), low=-math.inf, high=math.inf)

    @property
    def unit_of_message(self) -> float:
        """What one unit of an entry of a message is worth in rewards; of bits, one of them."""
        return 1.0

    def reach_of_one(self, reports: int, *, checked: bool = True) -> Reach:
        """How far one report can move the means that are released over `reports` clients.

        Without a check of single reports (`checked` false, as where they are split into shares) nothing
        bounds it.
        """
        message, unit = self.message, self.unit_of_message / whole(1, reports=reports)
        entries = math.prod(message.shape[1:])  # bits of one number add up
        spread = (message.high - message.low) * entries * unit if checked else math.inf
        honest = 2 * self.bound / reports
        if message.largest_square is None:
            return Reach(mean=spread, honest=honest)
        # Two points of a ball differ by its diameter at most, which is the largest √Σ(2x − 2c)².
        length = math.sqrt(message.largest_square) * unit if checked else math.inf
        return Reach(mean=min(spread, length), honest=honest, length=length, honest_length=honest)

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
        return self.coordinates

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
    scaled = _in_radii(rows, radius)
    lengths = np.linalg.norm(scaled, axis=-1, keepdims=True)
    shortened: FloatArray = scaled / np.maximum(lengths, 1) * radius
    return shortened


def _in_radii(rows: FloatArray, radius: float) -> FloatArray:
    """Rows in units of the radius, before any square is taken: no square then over- or underflows."""
    return np.clip(rows, -_ABSURD * radius, _ABSURD * radius) / radius


def honest_clients(cohorts: Iterable[tuple[int, int]]) -> str:
    """What is needed of clients that share the noise: pairs (those that add it, those that report)."""
    few, *more = sorted(set(cohorts), key=lambda pair: pair[::-1])
    shown = f"at least {few[0]:,} of {few[1]:,} reporting clients"
    if more:
        many = more[-1]
        shown = (
            f"in every cohort enough reporting clients (at least {few[0]:,} of {few[1]:,} in the smallest, "
        )
        shown += f"{many[0]:,} of {many[1]:,} in the largest)"
    return f"{shown} are real, add their noise and tell it to nobody"


SomeMechanism = TypeVar("SomeMechanism", bound=type[Mechanism])


def register(mechanism: SomeMechanism) -> SomeMechanism:
    """Make a mechanism known by its `kind`, so that requests may name it and plans can be decoded.

    Args:
        mechanism: The class, whose `trust` names the trust model it belongs to.

    Returns:
        The same class, so that this works as a decorator.

    Raises:
        InvalidValue: Another module has registered the kind.
    """
    MECHANISMS.add(mechanism.kind, mechanism, origin=mechanism.__module__)
    return mechanism
