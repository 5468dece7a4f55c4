"""`Context`: what all parts of a coordinator need. It has the study, its terms, its keys and its timing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from dpbandits.errors import InvalidValue, Refused
from dpbandits.options import Options
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.protocol import Plan, Spending, Study, budgeted, decode, encode, spent
from dpbandits.rounds import Clock, Hook, check_study
from dpbandits.service.coordinator._watermark import Watermark
from dpbandits.service.shared import Limits, ShufflerAddress, Timing
from dpbandits.service.wire import (
    KeyPair,
    PartyTerms,
    Place,
    ReportSlot,
    SignedTerms,
    Terms,
    new_run,
    terms_of,
)
from dpbandits.storage import StudyRecord, Transaction


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """What the store keeps from the start of a study.

    Attributes:
        signed: The terms of the study.
        spending: The schedule, if the coordinator planned it for a number of participants.
        options: The options with their names and their encoding, if the study has options. Their digest is a
            part of the study, and so of the terms.
    """

    signed: SignedTerms
    spending: Spending | None = None
    options: Options | None = None

    @staticmethod
    def read(transaction: Transaction) -> Beginning:
        """Read the beginning of a study from its store.

        Args:
            transaction: A transaction of the store.

        Returns:
            The beginning.

        Raises:
            InvalidValue: The store is empty.
        """
        found = transaction.study()
        if found is None:
            raise InvalidValue("storage", "an empty store", "the store of a study that has been served")
        return decode(found.body, Beginning)


@dataclass(frozen=True, kw_only=True)
class Context:
    """A study with everything that its coordinator needs.

    Attributes:
        study: The study.
        participants: If given, the coordinator plans the schedule for this number of clients when the store
            is created, and keeps it there.
        options: The options whose rows are the actions; None if the actions have no names.
        keys: The coordinator's key pair.
        timing: How long clients have to join and to report, and how often they poll.
        shuffler: The address and key of the shuffler; None outside the shuffle model.
        url: The coordinator's public address.
        signed: The terms of the study: from a file, or None until the store is opened (`settled`).
        noise: The source of noise for releases. It cannot be configured: a coordinator that a command starts
            uses keyed noise (_fingerprint.py). A test may pass a seeded source; its releases are marked as
            simulated.
        clock: The source of time; None for the clock of the store, which all workers share.
        hook: Called with the name of every journal step, for fault injection.
        watermark: If given, the study stops when its store is an old copy (_watermark.py).
        conformance: Whether this server only tests clients. The version in its terms is then a different one,
            which clients refuse unless they are being tested.
        limits: If given, a plan whose reports exceed these limits is refused.
    """

    study: Study
    participants: int | None = None
    options: Options | None = None
    keys: KeyPair
    timing: Timing = field(default_factory=Timing)
    shuffler: ShufflerAddress | None = None
    url: str = "http://127.0.0.1:8443"
    signed: SignedTerms | None = None
    noise: NoiseSource = field(default_factory=SecureNoise)
    clock: Clock | None = None
    hook: Hook = lambda _step: None
    watermark: Watermark | None = None
    conformance: bool = False
    limits: Limits | None = None

    def __post_init__(self) -> None:
        privacy = self.study.privacy
        check_study(self.study)
        if privacy.trust_model.shuffler != (self.shuffler is not None):
            given = None if self.shuffler is None else self.shuffler.url
            raise InvalidValue("shuffler", given, "one in the shuffle model, and none in other models")
        check_options(self.study, self.options)

    def label(self, action: int) -> str:
        """Return the name of an action; empty if the actions have no names.

        Args:
            action: The index of the action.
        """
        return "" if self.options is None else self.options.labels[action]

    @property
    def name(self) -> str:
        """The digest of the terms, which names the study in every message."""
        return self.study.name

    @cached_property
    def terms(self) -> Terms:
        """The terms that the study runs under."""
        if self.signed is None:
            raise InvalidValue("terms", None, "terms, which are known once the store is open")
        return self.signed.opened()

    def terms_for(self, run: str) -> Terms:
        """Return the terms that follow from this configuration.

        Args:
            run: The name of the run.
        """
        shuffler, mode = None, ""
        if self.shuffler is not None:
            shuffler, mode = PartyTerms(url=self.shuffler.url, key=self.shuffler.key), self.shuffler.mode
        own = PartyTerms(url=self.url, key=str(self.keys.public))
        return terms_of(
            self.study,
            run=run,
            coordinator=own,
            shuffler=shuffler,
            mode=mode,
            conformance=self.conformance,
        )

    def planned(self, found: StudyRecord | None) -> Context:
        """Return this context with the schedule from the store, or with a new one if the store has none.

        Without `participants` the schedule is configured, and nothing changes.

        Args:
            found: The record of the study in the store; None if the store is empty.
        """
        if self.participants is None:
            return self
        spending = None if found is None else decode(found.body, Beginning).spending
        spending = spending or budgeted(self.study, self.participants)  # may take some seconds
        return replace(self, study=spent(self.study, spending))

    def settled(self, transaction: Transaction) -> Context:
        """Return this context with the terms of the store.

        An empty store first gets the terms of the file or, without a file, new ones.

        Args:
            transaction: A transaction of the store.

        Raises:
            InvalidValue: The terms of the store differ from those of the file or of the configuration.
            Refused: `changed` if another worker began the study at the same time; the writer then retries.
        """
        found = transaction.study()
        if found is None:
            signed = self.signed or SignedTerms.of(self.terms_for(new_run()))
            _begin(transaction, StudyRecord(digest=signed.digest, body=encode(self._beginning(signed))))
        else:
            kept = decode(found.body, Beginning)
            signed = kept.signed
            if kept.options != self.options:
                expected = "those that the store has: names, features and `current` are a part of the study"
                raise InvalidValue("options", "other options", expected)
            if self.signed is not None and self.signed.digest != signed.digest:
                raise InvalidValue(
                    "terms", self.signed.digest[:12], f"{signed.digest[:12]}, as the store has"
                )
            signed = self.signed or signed  # the same text, which may have been signed since
        own = self if found is None else self.planned(found)  # another worker may have planned first
        _check_configured(signed.opened(), own)
        return replace(own, signed=signed, study=replace(own.study, terms=signed.digest))

    def _beginning(self, signed: SignedTerms) -> Beginning:
        chosen = None
        if self.participants is not None:
            chosen = Spending(schedule=self.study.schedule, design_tolerance=self.study.design_tolerance)
        return Beginning(signed=signed, spending=chosen, options=self.options)

    @property
    def shuffled(self) -> bool:
        """Whether clients send their reports to a shuffler."""
        return self.shuffler is not None

    def check_fits(self, plan: Plan) -> None:
        """Check that the reports of a plan are within the limits, if the coordinator collects reports.

        Args:
            plan: The plan.

        Raises:
            InvalidValue: A report is larger than the limits allow.
        """
        if self.limits is not None and not self.shuffled:
            slot = ReportSlot(plan=plan, place=self.place(plan, 1, ""))
            self.limits.check_report(slot.body_size, plan.phase)

    def place(self, plan: Plan, attempt: int, pseudonym: str) -> Place:
        """Return the place that a report belongs to; sealed reports are bound to it.

        Args:
            plan: The plan.
            attempt: The attempt at the phase.
            pseudonym: The client's pseudonym.
        """
        return Place.of(self.name, plan, attempt, pseudonym)


def _begin(transaction: Transaction, record: StudyRecord) -> None:
    try:
        transaction.begin_study(record)
    except Refused as refusal:  # another worker began it after this one had read the store
        raise Refused("changed", "another worker began the study at the same time") from refusal


def check_options(study: Study, options: Options | None) -> None:
    """Check that options are those of a study.

    Raises:
        InvalidValue: Their digest or their actions differ from those of the study.
    """
    digest = "" if options is None else options.digest
    if digest != study.options or (options is not None and options.actions != study.actions):
        raise InvalidValue(
            "options", digest[:12] or "none", f"the options of the study: {study.options[:12]}"
        )


def _check_configured(terms: Terms, context: Context) -> None:
    """Raise `InvalidValue` if the configuration leads to other terms: one store serves one study."""
    own = context.terms_for(terms.run)
    for name in msgspec.structs.fields(Terms):
        given, agreed = getattr(own, name.name), getattr(terms, name.name)
        if given != agreed:
            expected = f"{given}, as configured: a store and a set of terms serve one study"
            raise InvalidValue("storage or terms", f"{name.name} {agreed}", expected)
