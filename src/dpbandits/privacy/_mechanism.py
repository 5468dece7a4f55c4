"""`Mechanism`, the base class of all mechanisms: R at each client, S at the third party, A at the server.

A mechanism is one immutable value that holds three things, so that none can change without the others:

    randomize, shuffle, analyze   its samplers; `ReportFormat` says what a report looks like
    event                         the privacy that it costs
    error_radius                  the error of the released mean (`ErrorOfMeans`), from which confidence
                                  widths are computed

Privacy does not depend on assumptions about the data, because `randomize` always clips first: each average to
[−bound, bound], or the whole row to the ball of that radius. Fewer than `minimum_reports` reports are never
analyzed, because noise that clients share is calibrated to that number.

A new mechanism is one short file. It is a frozen keyword-only dataclass that derives from `Mechanism`, has a
field `kind` with its name as the default, and is decorated with `@register`. If it defines `calibrated`, a
`PrivacyRequest` can name it as its noise, and every study and simulation can use it. examples/one_bit.py is
a complete example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar, final

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue, NotAvailable, TooFewReports
from dpbandits.privacy._error_of_means import ErrorOfMeans
from dpbandits.privacy._limits import checked_bound, checked_cohort, checked_coordinates
from dpbandits.privacy._message import Payload
from dpbandits.privacy._registry import TRUST_MODELS
from dpbandits.privacy._report_format import ReportFormat
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.tails import squared_norms

if TYPE_CHECKING:
    from dpbandits.privacy._trust_model import TrustModel
    from dpbandits.privacy.accounting import Event

SHAPES = ("box", "ball")
_ABSURD = 1e9  # averages beyond this many radii are cut before they are squared


class Mechanism(ErrorOfMeans, ReportFormat):
    """R, S and A for a cohort of clients that report averages.

    Attributes:
        kind: The name of the mechanism in plans and requests.
        coordinates: The number of averages that each client reports.
        cohort: The number of clients that are asked.
        bound: The clipping bound.
        shape: "box" or "ball".
        trust: The name of the trust model.
        unit: The unit of `message_size`: "numbers" or "bits".

    Example:
        >>> import dpbandits as dp, numpy as np
        >>> from dpbandits.privacy import calibrate
        >>> request = dp.PrivacyRequest(trust="central", epsilon=1, delta=1e-6)
        >>> mechanism = calibrate(request, coordinates=2, cohort=1000, bound=1)
        >>> noise = dp.SimulatedNoise(np.random.default_rng(1))
        >>> mechanism.simulate(np.full((1000, 2), 0.25), noise).round(2)
        array([0.25, 0.25])
        >>> mechanism.event.delta(1.0) <= 1e-6
        True
    """

    kind: str
    coordinates: int
    cohort: int
    bound: float
    shape: str = "box"
    """A "box" clips each average to [−bound, bound], a "ball" each row to the ball of that radius."""

    trust: ClassVar[str]
    unit: ClassVar[str]
    pure: ClassVar[bool] = False
    """Whether a request that names this mechanism may have δ = 0."""
    additive: ClassVar[bool] = True
    """Whether A needs only the sum of integer reports. If not, it needs every report."""
    needs_shares: ClassVar[bool] = False
    """Whether reports must be split between two parties, because neither may see a whole report."""
    simulated_only: ClassVar[bool] = False
    """Whether its noise uses floating point. Such reports must not leave a machine."""

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
        """Return a mechanism that satisfies a `PrivacyRequest` if at least `least` clients report.

        A mechanism that defines this can be requested by name: `PrivacyRequest(noise=KIND)`.

        Args:
            request: The `PrivacyRequest`.
            coordinates: The number of averages that each client reports.
            cohort: The number of clients that are asked.
            bound: The clipping bound.
            least: The fewest reports in a release.

        Raises:
            NotAvailable: If the mechanism cannot be requested by name.
        """
        raise NotAvailable(f"noise: got {cls.kind}, which cannot be requested by name")

    @classmethod
    def by_name(cls) -> bool:
        """Return whether a request may name this mechanism as its noise: whether it defines `calibrated`."""
        own, inherited = cls.calibrated, Mechanism.calibrated
        return own.__func__ is not inherited.__func__  # type: ignore[attr-defined]

    def __post_init__(self) -> None:
        one_of(SHAPES, shape=self.shape)
        checked_coordinates(self.coordinates)
        checked_cohort(self.cohort)
        checked_bound(self.bound)

    @property
    def noise_name(self) -> str:
        """The name of the noise distribution, or the `kind` if the mechanism has no attribute `noise`."""
        return str(getattr(self, "noise", self.kind))

    @property
    def minimum_reports(self) -> int:
        """The fewest reports in a release. With fewer reports `analyze` raises an error."""
        return 1

    @property
    def noisy_reports(self) -> int | None:
        """How many of `minimum_reports` clients must add noise; None if privacy does not depend on others."""
        return None

    @property
    def trust_model(self) -> TrustModel:
        """The `TrustModel` that the mechanism belongs to."""
        return TRUST_MODELS[self.trust]

    @property
    def rests_on(self) -> str:
        """Who must follow the protocol, and who must not collude, for the guarantee to hold."""
        return self.trust_model.rests_on

    @property
    def needs(self) -> str:
        """All assumptions of the guarantee besides the noise: `rests_on`, and enough honest clients."""
        if self.noisy_reports is None:
            return self.rests_on
        return f"{self.rests_on}; {honest_clients([(self.noisy_reports, self.minimum_reports)])}"

    @final
    def clip(self, averages: FloatArray) -> FloatArray:
        """Clip every row to the box or the ball, which bounds the sensitivity.

        Args:
            averages: One row of averages per client.

        Returns:
            The clipped averages.

        Raises:
            InvalidValue: If an average is NaN.
        """
        if np.isnan(averages).any():
            raise InvalidValue("averages", "NaN", "numbers; a client without rewards must not report")
        if self.shape == "box":
            return np.clip(averages, -self.bound, self.bound)
        return _into_ball(averages, self.bound)

    @final
    def entries_cut(self, averages: FloatArray) -> int:
        """Return how many numbers clipping changes. In a ball, clipping a row changes all of its numbers.

        Args:
            averages: One row of averages per client.
        """
        if self.shape == "box":
            return int(np.count_nonzero(np.abs(averages) > self.bound))
        return self.coordinates * int(np.count_nonzero(squared_norms(_in_radii(averages, self.bound)) > 1))

    @final
    def randomize(self, averages: FloatArray, noise: NoiseSource) -> Payload:
        """R, at the client: clip, encode and randomize.

        Args:
            averages: One row of `coordinates` averages per client.
            noise: The source of randomness.

        Returns:
            One report per client, of the shape `message.shape`.
        """
        return self._randomize(self.clip(averages), noise)

    @final
    def analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        """A, at the server: compute the private mean of each average.

        Args:
            batch: What `shuffle` returned.
            reports: The number of clients that reported.
            noise: The source of randomness.

        Returns:
            `coordinates` means.

        Raises:
            TooFewReports: If there are fewer reports than `minimum_reports`.
            InvalidValue: If there are more reports than clients in the cohort.
        """
        if reports < self.minimum_reports:
            raise TooFewReports(reports, self.minimum_reports)
        return self._analyze(batch, whole(1, self.cohort, reports=reports), noise)

    @final
    def simulate(self, averages: FloatArray, noise: NoiseSource) -> FloatArray:
        """Draw A(S(R(averages))) from its exact distribution, without building the reports.

        Args:
            averages: One row of averages per client.
            noise: Simulated noise.

        Returns:
            The released means.
        """
        return self.simulate_blocks([averages], noise)

    @final
    def simulate_blocks(self, blocks: Iterable[FloatArray], noise: NoiseSource) -> FloatArray:
        """Return the same as `simulate`, for a cohort that arrives in blocks of rows, to save memory.

        Args:
            blocks: The rows of averages, in blocks.
            noise: Simulated noise.

        Returns:
            The released means.
        """
        total, reports = np.zeros(self.coordinates), 0
        for block in blocks:
            part = self._simulated_sum(self.clip(block), noise)
            total, reports = part if reports == 0 else total + part, reports + len(block)
        return self._simulated_mean(total, reports, noise)

    def third_party_noise(self, noise: NoiseSource) -> Payload | None:  # noqa: ARG002
        """Draw the noise that the third party adds to the sums of integer reports; None if it adds none.

        Args:
            noise: The source of randomness.

        Returns:
            One whole number per reported number, or None.
        """
        return None

    @property
    def largest_server_noise(self) -> int:
        """A bound on the noise that servers add to a sum; it is exceeded with probability below 10⁻¹²."""
        return 0

    def shuffle(self, payloads: Payload, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """S, at the third party. Outside the shuffle model it returns the reports unchanged.

        Args:
            payloads: One report per row.
            noise: The source of randomness.

        Returns:
            The batch that the server sees.
        """
        return payloads

    @abstractmethod
    def _randomize(self, clipped: FloatArray, noise: NoiseSource) -> Payload: ...

    @abstractmethod
    def _analyze(self, batch: Payload, reports: int, noise: NoiseSource) -> FloatArray: ...

    def _simulated_sum(self, clipped: FloatArray, noise: NoiseSource) -> Payload:  # noqa: ARG002
        """Return the contribution of some clients to the sum, without the noise of `_simulated_mean`."""
        return np.asarray(clipped.sum(axis=0))

    @abstractmethod
    def _simulated_mean(self, total: Payload, reports: int, noise: NoiseSource) -> FloatArray:
        """Add the noise to the sum of all contributions, and return the released mean."""

    @property
    @abstractmethod
    def event(self) -> Event:
        """The privacy cost of the untrusted party's view, if one client is replaced."""


def _into_ball(rows: FloatArray, radius: float) -> FloatArray:
    """Scale down the rows that are longer than the radius."""
    scaled = _in_radii(rows, radius)
    lengths = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.asarray(scaled / np.maximum(lengths, 1) * radius)


def _in_radii(rows: FloatArray, radius: float) -> FloatArray:
    """Return the rows in units of the radius, so that no square overflows or underflows."""
    return np.clip(rows, -_ABSURD * radius, _ABSURD * radius) / radius


def honest_clients(cohorts: Iterable[tuple[int, int]]) -> str:
    """Return the assumption about clients that share the noise, as text.

    Args:
        cohorts: A pair for each cohort: how many clients must add noise, and how many must report.
    """
    by_size = sorted(set(cohorts), key=lambda pair: pair[::-1])
    few, *more = (f"{noisy:,} of {reporting:,}" for noisy, reporting in by_size)
    shown = f"at least {few} reporting clients"
    if more:
        sizes = f"at least {few} in the smallest, {more[-1]} in the largest"
        shown = f"in every cohort enough reporting clients ({sizes})"
    return f"{shown} are real, add their noise and keep it secret"
