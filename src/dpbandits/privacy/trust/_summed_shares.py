"""`SummedShares`: the third party adds the clients' integers modulo a power of two, and reveals the sum.

A report has one signed integer per coordinate. If a share of noise is larger than `largest_share` in absolute
value, the client sends the centre of the grid instead of the report. The accountant increases δ according to
the probability of this. Without such a limit one client could send any number, and so determine the sum. If δ
= 0 is requested there is no limit, because a limit would make δ > 0 (docs/privacy.md).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import whole
from dpbandits.privacy import accounting
from dpbandits.privacy._guarantee import PrivacyRequest
from dpbandits.privacy._limits import checked_cohort
from dpbandits.privacy._mechanism import Mechanism
from dpbandits.privacy._message import Message, Payload
from dpbandits.privacy._noisy_lattice import NoisyLattice, chance_replaced, least_largest, sent_message
from dpbandits.privacy._scales import COARSE, levels_and_scale
from dpbandits.privacy.noise import LAWS, NoiseLaw, NoiseSource
from dpbandits.privacy.trust._shared_noise import SharedNoise, noisy_reports

_MOST_SHARE = 2**50
_NEARLY_ONE = 1 - 2.0**-53
# The share of δ that is reserved for replaced reports. The noise is calibrated to the rest of δ.
_REPLACED = 0.01


@lru_cache(maxsize=1024)
def _largest_noise(law: NoiseLaw, coordinates: int, shares: int) -> int:
    """Return a bound that the sum of `shares` shares of noise exceeds with probability at most 10⁻¹².

    Callers pass powers of two, so that cohorts of similar size share a cached result.
    """
    tail = 1e-12 / (2 * coordinates)
    return math.ceil(float(law.radius(np.ones((1, 1)), np.zeros(1), tail, shares)[0]))


class ModularSum(NoisyLattice):
    """The base class of `SummedShares` and `ServerNoise`: S reveals only a sum modulo 2^`modulus_bits`."""

    @property
    @abstractmethod
    def largest_noise(self) -> int:
        """A bound on the absolute value of the noise in the sum."""

    @cached_property
    def modulus_bits(self) -> int:
        """Enough bits for the sum. A sum that wraps around would harm the estimate, but not privacy."""
        return (self.cohort * self.levels + 2 * self.largest_noise + 1).bit_length()

    @property
    def sum_bits(self) -> int:
        """`modulus_bits`: sums are revealed modulo this power of two."""
        return self.modulus_bits

    @property
    def message_size(self) -> int:
        """One number modulo 2^`modulus_bits` per coordinate."""
        return self.coordinates * self.modulus_bits

    def batch_of_sums(self, sums: Payload, reports: int) -> Payload:  # noqa: ARG002
        """Return the sums: they are what S reveals."""
        return sums

    def batch_shape(self, reports: int) -> tuple[int, ...]:  # noqa: ARG002
        """Return the shape of the sums: one per coordinate."""
        return self.message.shape

    def unwrapped(self, sums: Payload) -> Payload:
        """Return sums as signed numbers.

        Args:
            sums: The sums, modulo 2^`modulus_bits`.
        """
        low = -self.largest_noise
        return (sums - low) % (1 << self.modulus_bits) + low


@dataclass(frozen=True, kw_only=True)
class SummedShares(SharedNoise, ModularSum):
    """R encodes and adds a share of noise, S reveals the sum modulo 2^`modulus_bits`, and A decodes it.

    Attributes:
        levels: The number of levels of the grid.
        noise: "discrete-gaussian", "skellam" or "polya".
        scale: The scale of one client's share of the noise, in levels.
        least_reports: The fewest reports in a release.
        silent_share: The share of the reporting clients that may add no noise.
        largest_share: The largest noise, in levels, that a client sends in a coordinate. None if there is no
            limit, which only Pólya shares may have.
    """

    least_reports: int
    silent_share: float = 0.0
    largest_share: int | None = None
    shape: str = "box"
    kind: str = "summed-shares"

    trust = "shuffle"
    unit = "bits"
    laws = ("discrete-gaussian", "skellam", "polya")

    @property
    def rests_on(self) -> str:
        """The assumptions. Sums can also be computed by two parties, neither of which sees any report."""
        return f"{super().rests_on}; or each report is split among two parties that do not collude"

    def __post_init__(self) -> None:
        checked_cohort(self.cohort)
        self._check_reports()
        if self.noise != "polya" or self.largest_share is not None:
            whole(1, _MOST_SHARE, largest_share=self.largest_share)  # type: ignore[arg-type]
        super().__post_init__()

    @property
    def noise_shares(self) -> int:
        """The least number of shares in the sum: `noisy_reports`."""
        return self.noisy_reports

    @cached_property
    def largest_noise(self) -> int:
        """The largest absolute value of the noise in the sum.

        It is a bound for any accepted reports. Pólya shares are unbounded: for honest clients the bound holds
        except with probability below 10⁻¹².
        """
        if self.largest_share is not None:
            return self.cohort * self.largest_share
        return _largest_noise(self.law, self.coordinates, 1 << self.cohort.bit_length())

    @cached_property
    def message(self) -> Message:
        """Encoded values with noise of at most `largest_share`; for Pólya noise, all residues."""
        if self.largest_share is not None:
            return sent_message(self.levels, self.coordinates, self.shape, self.law, self.largest_share)
        half = 1 << whole(1, 62, modulus_bits=self.modulus_bits) - 1
        return Message(kind="integers", shape=(self.coordinates,), low=-half, high=half - 1)

    @property
    def limits_reports(self) -> bool:
        """Whether there is a largest share; if not, every residue is a report."""
        return self.largest_share is not None

    @property
    def distance(self) -> float:
        """An upper bound on the probability that any report of a cohort is replaced, for the accountant."""
        if self.largest_share is None:
            return 0.0
        chance = chance_replaced(self.law, self.coordinates, self.shape, self.largest_share)
        return min(self.cohort * chance * (1 + 1e-9), _NEARLY_ONE)

    @property
    def event(self) -> accounting.Event:
        """The cost of the noisy sum, increased by the effect of replaced reports."""
        exact = super().event
        if self.largest_share is None:
            return exact
        return accounting.Approximated(event=exact, distance=self.distance)

    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload:
        sent = self.lattice.encode(clipped, noise) + self.law.draw(len(clipped), self.coordinates, noise)
        if self.largest_share is not None:
            return self.message.or_centre(sent)
        half = 1 << self.modulus_bits - 1  # take the residue that is nearest to zero
        return ((sent + half) & (2 * half - 1)) - half

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """Return only the sum modulo 2^`modulus_bits`."""
        # int64 wraps modulo 2^64, which is a multiple of the modulus, so an overflow does no harm.
        return np.asarray(payloads.sum(axis=0, dtype=np.int64) & ((1 << self.modulus_bits) - 1))

    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:  # noqa: ARG002
        return self.lattice.decode_mean(self.unwrapped(batch), reports)


def summed_shares(
    request: PrivacyRequest, coordinates: int, cohort: int, bound: float, least: int, shape: str
) -> Mechanism:
    """Return the mechanism in which the shares of the fewest noisy reports satisfy the request."""
    shares = max(1, noisy_reports(least, request.silent_share))
    limited = not request.pure
    exact = replace(request, delta=(1 - _REPLACED) * request.delta) if limited else request
    levels, scale = levels_and_scale(exact, coordinates, cohort, shape=shape, shares=shares, rounding=COARSE)
    return SummedShares(
        coordinates=coordinates,
        cohort=cohort,
        bound=bound,
        levels=levels,
        noise=request.mechanism_noise,
        scale=scale,
        least_reports=least,
        silent_share=request.silent_share,
        largest_share=_largest_share(request, coordinates, cohort, scale, shape) if limited else None,
        shape=shape,
    )


def _largest_share(request: PrivacyRequest, coordinates: int, cohort: int, scale: float, shape: str) -> int:
    """Return the least limit for which replaced reports add at most a hundredth of δ.

    They add (1 + e^ε)·cohort·(the probability that one report is replaced).
    """
    # The cohort is rounded up to a power of two, so that cohorts of similar size get the same limit and share
    # cached results. The factor 1 − 10⁻⁶ covers floating-point rounding.
    allowed = _REPLACED * request.delta / (1 + math.exp(min(request.epsilon, 600.0))) * (1 - 1e-6)
    law = LAWS[request.mechanism_noise](scale=scale)
    return least_largest(law, coordinates, shape, allowed / (1 << cohort.bit_length()))
