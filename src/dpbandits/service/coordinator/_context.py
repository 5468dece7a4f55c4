"""What the parts of a coordinator share: the study, its terms, its keys, its timing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from dpbandits.errors import FloatingPointNoise, InvalidValue
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, Spending, Study, budgeted, decode, encode, spent
from dpbandits.rounds import Clock, Hook, SteadyClock
from dpbandits.service.coordinator._watermark import Watermark
from dpbandits.service.shared import ShufflerAddress, Timing
from dpbandits.service.wire import KeyPair, PartyTerms, Place, SignedTerms, Terms, new_run, terms_of
from dpbandits.storage import StudyRecord, Transaction


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What the store keeps of how a study began: its terms, and its schedule if that was planned here."""

    signed: SignedTerms
    spending: Spending | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """A study, its key, its timing, and where noise and time come from.

    With `participants` the schedule is planned for that many clients when the store begins, and kept there.
    `url` is the coordinator's public address. `signed` are the study's terms: those of a file, or None until
    the store is opened (`settled`). No configuration reaches `noise`: what a command starts has keyed noise
    in its releases (_fingerprint.py). A test may hand in a seeded source; its releases are stamped as
    simulated. `hook` is told every journal step by name. With a `watermark` a store that was set back stops
    the study.
    """

    study: Study
    participants: int | None = None
    keys: KeyPair
    timing: Timing = field(default_factory=Timing)
    shuffler: ShufflerAddress | None = None
    url: str = "http://127.0.0.1:8443"
    signed: SignedTerms | None = None
    noise: NoiseSource = field(default_factory=SecureNoise)
    clock: Clock = field(default_factory=SteadyClock)
    hook: Hook = lambda _step: None
    watermark: Watermark | None = None

    def __post_init__(self) -> None:
        privacy = self.study.privacy
        if self.study.assignment != "everyone":
            raise InvalidValue("assignment", self.study.assignment, "everyone: the service has no other")
        if privacy.only_simulated:
            raise FloatingPointNoise(
                f"noise: got {privacy.mechanism_noise}, expected integer noise such as discrete-gaussian: "
                "floats are for simulations only"
            )
        if privacy.trust_model.shuffler != (self.shuffler is not None):
            given = None if self.shuffler is None else self.shuffler.url
            raise InvalidValue("shuffler", given, "one in the shuffle model, and none in any other")

    @property
    def name(self) -> str:
        """The digest of the terms, by which every message names the study."""
        return self.study.name

    @cached_property
    def terms(self) -> Terms:
        """The terms that the study runs under."""
        if self.signed is None:
            raise InvalidValue("terms", None, "terms, which a coordinator has once its store is open")
        return self.signed.opened()

    def terms_for(self, run: str) -> Terms:
        """The terms that this configuration leads to, for a run of this name."""
        shuffler, mode = None, ""
        if self.shuffler is not None:
            shuffler, mode = PartyTerms(url=self.shuffler.url, key=self.shuffler.key), self.shuffler.mode
        own = PartyTerms(url=self.url, key=str(self.keys.public))
        return terms_of(self.study, run=run, coordinator=own, shuffler=shuffler, mode=mode)

    def planned(self, found: StudyRecord | None) -> Context:
        """This context with the schedule that the store has, or a new one if that is to be planned."""
        if self.participants is None:
            return self
        spending = None if found is None else decode(found.body, Beginning).spending
        spending = spending or budgeted(self.study, self.participants)  # may take some seconds
        return replace(self, study=spent(self.study, spending))

    def settled(self, transaction: Transaction) -> Context:
        """This context under the store's terms; an empty store gets those of the file, or new ones."""
        found = transaction.study()
        if found is None:
            signed = self.signed or SignedTerms.of(self.terms_for(new_run()))
            transaction.begin_study(StudyRecord(digest=signed.digest, body=encode(self._beginning(signed))))
        else:
            signed = decode(found.body, Beginning).signed
            if self.signed is not None and self.signed.digest != signed.digest:
                raise InvalidValue(
                    "terms", self.signed.digest[:12], f"{signed.digest[:12]}, as the store has"
                )
            signed = self.signed or signed  # the same text, perhaps signed since
        own = self if found is None else self.planned(found)  # another worker may have planned meanwhile
        _check_configured(signed.opened(), own)
        return replace(own, signed=signed, study=replace(own.study, terms=signed.digest))

    def _beginning(self, signed: SignedTerms) -> Beginning:
        if self.participants is None:
            return Beginning(signed=signed)
        chosen = Spending(schedule=self.study.schedule, design_tolerance=self.study.design_tolerance)
        return Beginning(signed=signed, spending=chosen)

    @property
    def shuffled(self) -> bool:
        """Whether reports go to a shuffler."""
        return self.shuffler is not None

    def place(self, plan: Plan, attempt: int, pseudonym: str) -> Place:
        """Where a report of this plan belongs."""
        return Place(
            study=self.name,
            phase=plan.phase,
            attempt=attempt,
            plan=plan.digest,
            pseudonym=pseudonym,
        )


def _check_configured(terms: Terms, context: Context) -> None:
    """Refuse to run a study whose configuration does not lead to its terms: one store serves one study."""
    own = context.terms_for(terms.run)
    for name in msgspec.structs.fields(Terms):
        given, agreed = getattr(own, name.name), getattr(terms, name.name)
        if given != agreed:
            expected = f"{given}, as configured: one store, and one set of terms, serve one study"
            raise InvalidValue("storage or terms", f"{name.name} {agreed}", expected)
