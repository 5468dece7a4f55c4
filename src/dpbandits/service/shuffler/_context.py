"""`ShufflerContext`: the configuration of a shuffler."""

from __future__ import annotations

from dataclasses import dataclass, field

from dpbandits._checks import one_of, whole
from dpbandits.privacy import NoiseSource
from dpbandits.rounds import Hook
from dpbandits.service.shared import Limits
from dpbandits.service.wire import MODES, SHARED_MODES, KeyPair, Pins


@dataclass(frozen=True, kw_only=True)
class ShufflerContext:
    """The configuration of a shuffler.

    Attributes:
        keys: The private key that reports are sealed to.
        mode: `trusted`, `split` or `verified`.
        minimum_reports: The shuffler's own minimum: a collection with fewer reports fails, and nothing is
            revealed.
        pins: The digest of the terms that the shuffler's operator agreed to, or the key that signs them. By
            default all terms that name this shuffler's key and mode are accepted.
        hook: Called with the name of each step; tests inject crashes there.
        conformance: Whether this shuffler belongs to a server that only tests clients.
        limits: If given, a plan whose reports exceed these limits is refused.
        noise: The source of the shuffler's own noise, if a plan asks for such noise. It cannot be configured:
            None means keyed noise. Tests pass a seeded source.
    """

    keys: KeyPair
    mode: str = "trusted"
    minimum_reports: int = 1
    pins: Pins = field(default_factory=Pins)
    hook: Hook = field(default=lambda _step: None)
    conformance: bool = False
    limits: Limits | None = None
    noise: NoiseSource | None = None

    def __post_init__(self) -> None:
        one_of(MODES, mode=self.mode)
        whole(1, minimum_reports=self.minimum_reports)

    @property
    def shared(self) -> bool:
        """Whether clients send two shares per report."""
        return self.mode in SHARED_MODES
