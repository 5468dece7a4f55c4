"""`Site`: hosts many users, and answers a plan for as many of them as it is asked for.

A site trusts the driver of a study as little as a single client trusts a coordinator. It has the study's
terms from its own file, checks them and every plan against its consent, and computes (ε, δ) of the plan
itself. It samples users who have not taken part, marks them in its ledger, and only then reads their data. It
runs R of the plan's mechanism for each user, seals the result to the key in the terms, and signs it.

A request that is repeated gets the bytes that were stored for it. So noise is drawn once for every answer
that leaves the site, whatever crashes and however often the driver asks.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.errors import DpbanditsError, Refused
from dpbandits.federation._ledger import KnownAsk, SiteLedger
from dpbandits.federation._messages import (
    Ask,
    Refusal,
    SiteAnswer,
    SiteReport,
    Status,
    StatusRequest,
    packed,
    read_request,
)
from dpbandits.federation._signing import SiteKey
from dpbandits.federation._source import DataSource
from dpbandits.privacy import NoiseSource, SecureNoise, tamed
from dpbandits.protocol import Plan, decode, summable, sums_of
from dpbandits.service.client import Consent
from dpbandits.service.wire import Place, PublicKey, SignedTerms, Terms, hashed

log = logging.getLogger("dpbandits.federation")

_AT_ONCE = 4096  # users whose reports are made at once, to limit memory use


@dataclass(frozen=True, kw_only=True)
class Site:
    """A site of a federation. `reply` is all that a carrier calls.

    Attributes:
        source: The users and their rewards.
        ledger: Which users have taken part.
        key: The key that signs the site's answers.
        signed: The study's terms, which the site has from its operator and not from the driver.
        consent: The terms and plans that the site accepts for its users.
        noise: The source of the users' noise. No file sets it: the default is the generator of the operating
            system. Tests pass a seeded source.
        hook: Called with the name of each step, for fault injection.

    Raises:
        Refused: The terms are outside the consent.
    """

    source: DataSource
    ledger: SiteLedger
    key: SiteKey
    signed: SignedTerms
    consent: Consent = field(default_factory=Consent)
    noise: NoiseSource = field(default_factory=SecureNoise)
    hook: Callable[[str], None] = lambda _step: None

    def __post_init__(self) -> None:
        self.consent.check_terms(self.terms)

    @cached_property
    def terms(self) -> Terms:
        """The terms of the study."""
        return self.signed.opened()

    def reply(self, request: bytes) -> bytes:
        """Return the reply to a request, which may come from anybody.

        Args:
            request: The bytes of a `StatusRequest` or an `Ask`.

        Returns:
            The bytes of a `Status`, an `SiteAnswer` or a `Refusal`. A refusal says nothing about a user.
        """
        try:
            asked = read_request(request)
            if isinstance(asked, StatusRequest):
                return self._status(asked)
            return self._answer(asked)
        except Refused as refusal:
            return packed(Refusal(reason=refusal.reason, message=refusal.message[:2000]))

    def _status(self, asked: StatusRequest) -> bytes:
        if asked.study != self.signed.digest:
            raise Refused("other-terms", "this site takes part in a study with other terms")
        return packed(Status(study=asked.study, unused=len(self.ledger.unused(self.source.users()))))

    def _answer(self, ask: Ask) -> bytes:
        plan = self._checked(ask)
        with self.ledger.locked():
            found = self._begun(ask, plan)
            if found.answer is not None:
                return found.answer
            report = self._report(plan, self.ledger.members(plan.phase, ask.attempt))
            self.hook("computed")
            unused = len(self.ledger.unused(self.source.users()))
            kept = self.ledger.keep(plan.phase, ask.attempt, self._sealed(ask, plan, report, unused))
            self.hook("kept")
            return kept

    def _checked(self, ask: Ask) -> Plan:
        """Decode and check a plan; anything malformed or not consented to raises `Refused`."""
        try:
            plan = decode(ask.plan, Plan)
        except Exception:  # a forged plan may cause any error
            raise Refused("no-consent", "the plan is not a valid plan of this version") from None
        if hashed(ask.plan) != plan.digest:
            raise Refused("no-consent", "the plan has fields that this version does not know")
        self.consent.check(plan, self.terms, self.signed)
        if ask.users > plan.cohort:
            raise Refused("no-consent", "more users are asked for than the plan's cohort has")
        return plan

    def _begun(self, ask: Ask, plan: Plan) -> KnownAsk:
        """Return the request as the ledger has it. If it is new, choose users and mark them first."""
        known = self.ledger.ask(plan.phase, ask.attempt)
        if known is not None:
            if (known.plan, known.users, known.group) != (plan.digest, ask.users, ask.group):
                raise Refused("changed-plan", "this phase and attempt was asked before with other content")
            return known
        if self.ledger.plan_of(plan.phase) not in (None, plan.digest):
            raise Refused("changed-plan", "this phase was asked before with another plan")
        unused = self.ledger.unused(self.source.users())
        if not unused:
            raise Refused("no-users", "every user of this site has taken part")
        chosen = secrets.SystemRandom().sample(unused, min(ask.users, len(unused)))
        begun = KnownAsk(plan=plan.digest, users=ask.users, group=ask.group, answer=None)
        self.ledger.mark(plan.phase, ask.attempt, begun, chosen)
        self.hook("marked")
        return begun

    def _report(self, plan: Plan, users: list[str]) -> SiteReport:
        try:
            averages = np.asarray(self.source.averages(users, plan), dtype=np.float64)
        except Exception as error:  # its message may contain data
            log.exception("data-source")
            raise Refused("no-data", f"the data source of the site failed: {type(error).__name__}") from None
        if averages.shape != (len(users), len(plan.support)):
            raise Refused(
                "no-data", "the data source of the site did not return one average per user and action"
            )
        present = averages[~np.isnan(averages).all(axis=1)]
        if not len(present):
            raise Refused("no-users", "all users that were chosen dropped out")
        return self._randomized(plan, present)

    def _randomized(self, plan: Plan, averages: FloatArray) -> SiteReport:
        """Run R for each user, and add up the reports if A needs only their sum."""
        mechanism, blocks = plan.asked_mechanism, self._blocks(plan, averages)
        if summable(plan):
            totals = np.zeros(plan.numbers, dtype=np.int64)
            for block in blocks:
                totals += block.reshape(len(block), plan.numbers, -1).sum(axis=(0, 2), dtype=np.int64)
            sums = sums_of(plan, totals.tolist(), len(averages)).sums
            return SiteReport(plan=plan.digest, reports=len(averages), sums=sums)
        reports = [mechanism.message.pack(row) for block in blocks for row in block]
        secrets.SystemRandom().shuffle(reports)  # the order of users says who they are
        return SiteReport(plan=plan.digest, reports=len(reports), packed=b"".join(reports))

    def _blocks(self, plan: Plan, averages: FloatArray) -> Iterator[FloatArray]:
        for start in range(0, len(averages), _AT_ONCE):
            reported = plan.reported(tamed(averages[start : start + _AT_ONCE]))
            yield plan.asked_mechanism.randomize(reported, self.noise)

    def _sealed(self, ask: Ask, plan: Plan, report: SiteReport, unused: int) -> bytes:
        party = self.terms.coordinator if self.terms.shuffler is None else self.terms.shuffler
        place = Place.of(self.signed.digest, plan, ask.attempt, ask.group)
        sealed = PublicKey.parse(party.key).seal(packed(report), place, "report")
        signature = self.key.sign(sealed, place)
        return packed(SiteAnswer(plan=plan.digest, unused=unused, sealed=sealed, signature=signature))


def unexpected(error: Exception) -> bytes:
    """Return a refusal for an unexpected error.

    It has the message of an error of this library, and only the type of any other error, whose message may
    contain data.
    """
    told = str(error) if isinstance(error, DpbanditsError) else type(error).__name__
    return packed(Refusal(reason="failed", message=told[:2000]))
