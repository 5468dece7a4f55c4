"""What the parts of a coordinator share, and the two things they all look up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from dpbandits.errors import FloatingPointNoise, InvalidValue
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, Study
from dpbandits.service.clock import Clock, SteadyClock
from dpbandits.service.course import Course
from dpbandits.service.sealing import KeyPair, Place
from dpbandits.service.settings import ShufflerAddress, Timing
from dpbandits.service.watermark import Watermark
from dpbandits.storage import Attempt, Transaction

Hook = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Context:
    """A study, its key, its timing, and where noise and time come from.

    No configuration reaches `noise`: what a command starts has keyed noise in its releases (fingerprint.py).
    A test may hand in a seeded source; its releases are stamped as simulated. `hook` is told every journal
    step by name. With a `watermark` a store that was set back stops the study.
    """

    study: Study
    keys: KeyPair
    timing: Timing = field(default_factory=Timing)
    shuffler: ShufflerAddress | None = None
    noise: NoiseSource = field(default_factory=SecureNoise)
    clock: Clock = field(default_factory=SteadyClock)
    hook: Hook = lambda _step: None
    watermark: Watermark | None = None
    course: Course = field(init=False)

    def __post_init__(self) -> None:
        privacy = self.study.privacy
        if privacy.trust != "none" and privacy.mechanism_noise == "gaussian":
            raise FloatingPointNoise(
                "noise: got gaussian, expected discrete-gaussian: floats are for simulations only"
            )
        if (privacy.trust == "shuffle") != (self.shuffler is not None):
            given = None if self.shuffler is None else self.shuffler.url
            raise InvalidValue("shuffler", given, "one in the shuffle model, and none in any other")
        object.__setattr__(self, "course", Course(self.study))

    @property
    def shuffled(self) -> bool:
        """Whether reports go to a shuffler."""
        return self.shuffler is not None

    def minimum(self, plan: Plan) -> int:
        """The fewest reports that are released."""
        return self.study.privacy.minimum_reports(plan.cohort)

    def place(self, plan: Plan, attempt: int, pseudonym: str) -> Place:
        """Where a report of this plan belongs."""
        return Place(
            study=self.study.digest,
            phase=plan.phase,
            attempt=attempt,
            plan=plan.digest,
            pseudonym=pseudonym,
        )

    def ended(self, transaction: Transaction, latest: Attempt) -> bool:
        """Whether the horizon is reached."""
        return latest.over and self.course.state(transaction).ended

    def expired(self, attempt: Attempt) -> bool:
        """Whether the deadline of the attempt's state has passed."""
        remaining = attempt.remaining(self.clock.now())
        return remaining is not None and remaining <= 0
