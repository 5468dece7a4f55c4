"""`TrustModel`: who adds noise, what the untrusted party sees, and how the noise is calibrated.

Each built-in model is one file in trust/. A new model is also one file, which ends with

    register_trust(TrustModel(name="toy", ...))

docs/how-to/new-trust-model.md has a complete example.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from dpbandits._checks import one_of
from dpbandits.errors import InvalidValue
from dpbandits.privacy._registry import MECHANISMS, TRUST_MODELS

if TYPE_CHECKING:
    from dpbandits.privacy._guarantee import PrivacyRequest
    from dpbandits.privacy._mechanism import Mechanism

ADDERS = ("nobody", "server", "client", "cohort")
"""Who adds noise: nobody, the server, each client (enough for itself), or a whole cohort together."""

VIEWS = ("report", "batch", "release")
"""What the untrusted party sees: each report, the output of the shuffler, or only the release."""


class Calibrate(Protocol):
    """A function that returns the mechanism for a request."""

    def __call__(
        self, request: PrivacyRequest, *, coordinates: int, cohort: int, bound: float, shape: str, least: int
    ) -> Mechanism:
        """Return the mechanism for `cohort` clients that report `coordinates` values each.

        Args:
            request: The requested (ε, δ), preset and noise.
            coordinates: The number of values in one report.
            cohort: The number of clients that are asked.
            bound: Each value is clipped to [−bound, bound], or each report to the ball of that radius.
            shape: "box" or "ball".
            least: The fewest reports in a release.
        """


class CalibrateOneValue(Protocol):
    """A function that returns the mechanism of one per-action cohort."""

    def __call__(self, request: PrivacyRequest, *, cohort: int, bound: float) -> Mechanism:
        """Return the mechanism for `cohort` clients that report one value each."""


class TypicalError(Protocol):
    """A function that estimates the error of a released mean."""

    def __call__(self, request: PrivacyRequest, on_sum: float, clients: int) -> float:
        """Return the standard deviation of the error of the mean over `clients` clients.

        Args:
            request: The requested (ε, δ), preset and noise.
            on_sum: The standard deviation of the noise that a single party would add to the sum.
            clients: The number of clients that report.
        """


@dataclass(frozen=True, kw_only=True, eq=False)
class TrustModel:
    """Everything that the library needs to know about a trust model.

    Attributes:
        name: The name in requests, study files, terms and results.
        rests_on: The assumptions of the guarantee besides the noise: who must follow the protocol, and who
            must not collude. The text becomes `Guarantee.needs`.
        noise_by: Who adds noise, one of `ADDERS`.
        view: What the untrusted party sees, one of `VIEWS`. The audit plays against this view.
        mechanisms: The mechanism classes of the model. `register_trust` registers them.
        calibrate: Returns the mechanism for a request.
        noises: The noise distributions that a request may name.
        pure_noises: The noises that achieve δ = 0.
        simulated_noises: The noises that use floating point. Only simulations may use them.
        defaults: The noises of a request that names none, by (preset, whether δ = 0). If there are several,
            the one with the least predicted error is used, phase by phase. Example: `{("tight", False):
            ("discrete-gaussian", "k-norm"), ("tight", True): ("k-norm",)}`. Requests for any other pair must
            name a noise.
        ball_noises: The noises that are accounted for in an ℓ2 ball. If there are none, reports are always
            clipped to a box.
        sub_gaussian_noises: The noises that leave a sub-Gaussian error in the mean. Only phases with such
            noise are pooled.
        quick_noises: The noises that are so quick to calibrate that planning calibrates them instead of using
            `typical_error`.
        laplace_noise: The noise whose sum is discrete Laplace noise, the best one if each client reports one
            value; None if there is none.
        server_noise: The noise that each of two servers adds alone, so that no client's privacy depends on
            other clients; None if the model has none.
        shuffler: Whether reports go to a third party that shuffles or adds them.
        calibrate_one_value: Returns the mechanism of one per-action cohort; None if one calibration serves
            cohorts of every size.
        typical_error: Estimates the error of the mean without a calibration, for planning; None to
            calibrate instead.

    Raises:
        InvalidValue: If a value is not accepted, or if a mechanism belongs to another trust model.

    Example:
        >>> from dpbandits.privacy import TRUST_MODELS
        >>> model = TRUST_MODELS["shuffle"]
        >>> model.noise_by, model.view, model.shuffler
        ('cohort', 'batch', True)
        >>> model.is_pure("polya"), model.is_pure("skellam")
        (True, False)
    """

    name: str
    rests_on: str
    noise_by: str
    view: str
    mechanisms: tuple[type[Mechanism], ...]
    calibrate: Calibrate
    noises: tuple[str, ...] = ()
    pure_noises: tuple[str, ...] = ()
    simulated_noises: tuple[str, ...] = ()
    defaults: Mapping[tuple[str, bool], tuple[str, ...]] = field(default_factory=dict)
    ball_noises: tuple[str, ...] = ()
    sub_gaussian_noises: tuple[str, ...] = ()
    quick_noises: tuple[str, ...] = ()
    laplace_noise: str | None = None
    server_noise: str | None = None
    shuffler: bool = False
    calibrate_one_value: CalibrateOneValue | None = None
    typical_error: TypicalError | None = None

    def __post_init__(self) -> None:
        one_of(ADDERS, noise_by=self.noise_by)
        one_of(VIEWS, view=self.view)
        named = (*self.pure_noises, *self.simulated_noises, *self.ball_noises, *self.quick_noises)
        named += self.sub_gaussian_noises
        for noise in (*named, *((self.server_noise,) if self.server_noise else ())):
            one_of(self.noises, noise=noise)
        for mechanism in self.mechanisms:
            if mechanism.trust != self.name:
                raise InvalidValue(f"{mechanism.__name__}.trust", mechanism.trust, self.name)

    @property
    def private(self) -> bool:
        """Whether the model adds any noise."""
        return self.noise_by != "nobody"

    @property
    def shares_noise(self) -> bool:
        """Whether a client's privacy depends on the noise of other clients."""
        return self.noise_by == "cohort"

    @property
    def noise_per_client(self) -> bool:
        """Whether every report contains all the noise that its client needs."""
        return self.noise_by == "client"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of its mechanisms that a deployed study may use: those without floating-point noise."""
        return tuple(sorted(made.kind for made in self.mechanisms if not made.simulated_only))

    def named(self, noise: str) -> type[Mechanism] | None:
        """Return the mechanism that a request names as its noise, or None if it names a noise distribution.

        Example: `TRUST_MODELS["local"].named("one-bit")`, once examples/one_bit.py is imported or installed.

        Args:
            noise: The noise of a request.
        """
        made = None if noise in self.noises else MECHANISMS.get(noise)
        return made if made is not None and made.trust == self.name and made.by_name() else None

    def offers(self, noise: str) -> bool:
        """Return whether a request may name this noise.

        Args:
            noise: The noise of a request.
        """
        return noise in self.noises or self.named(noise) is not None

    def is_pure(self, noise: str) -> bool:
        """Return whether this noise achieves δ = 0.

        Args:
            noise: The noise of a request.
        """
        named = self.named(noise)
        return noise in self.pure_noises if named is None else named.pure

    def only_simulated(self, noise: str) -> bool:
        """Return whether only simulations may use this noise.

        Args:
            noise: The noise of a request.
        """
        named = self.named(noise)
        return noise in self.simulated_noises if named is None else named.simulated_only

    def all_noises(self) -> tuple[str, ...]:
        """Return all names that a request may give, including those of registered mechanisms."""
        return (*self.noises, *(kind for kind in MECHANISMS if self.named(kind) is not None))


def register_trust(model: TrustModel) -> TrustModel:
    """Register a trust model and its mechanisms, for every command and the service.

    Args:
        model: The trust model.

    Returns:
        The same model.

    Raises:
        InvalidValue: If another module uses its name, or the kind of one of its mechanisms.

    Example:
        >>> from dataclasses import replace
        >>> import dpbandits as dp
        >>> from dpbandits.privacy import TRUST_MODELS
        >>> family = replace(TRUST_MODELS["none"], name="family", mechanisms=())
        >>> dp.register_trust(family) is TRUST_MODELS["family"]
        True
        >>> TRUST_MODELS.remove("family")
    """
    for mechanism in model.mechanisms:
        MECHANISMS.add(mechanism.kind, mechanism, origin=mechanism.__module__)
    TRUST_MODELS.add(model.name, model, origin=getattr(model.calibrate, "__module__", ""))
    return model
