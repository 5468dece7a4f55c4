"""`SiteAnswers`: opens and checks the answers of sites, and adds them up when an attempt is closed.

Answers are stored encrypted, as they arrived, until the release deletes them. A site may send a false answer.
An answer counts only if the stated number of honest users could have produced it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpbandits.errors import DpbanditsError, Refused
from dpbandits.federation._messages import SiteAnswer, SiteReport, read_reply, read_report
from dpbandits.federation._signing import PublicSiteKey
from dpbandits.privacy import SecureNoise
from dpbandits.protocol import Batch, Plan, Report, Sums, merge, report_range, shuffle, summable
from dpbandits.rounds import Group
from dpbandits.service.wire import KeyPair, Place
from dpbandits.storage import Attempt, Store


class SiteAnswers:
    """The answers of sites in a store (implements `dpbandits.rounds.Collector`).

    Args:
        store: The store of the study.
        keys: The key pair that sites seal their answers to.
        sites: The public key of each site, by the site's name.
    """

    def __init__(self, store: Store, keys: KeyPair, sites: Mapping[str, PublicSiteKey]) -> None:
        self._store = store
        self._keys = keys
        self._sites = sites

    def open(self, plan: Plan, attempt: Attempt) -> None:
        """Do nothing: the driver sends the plan."""

    def is_collecting(self, attempt: Attempt) -> bool:  # noqa: ARG002
        """Return True: the store takes answers until the attempt is closed."""
        return True

    def close(self, plan: Plan, attempt: Attempt) -> Batch | Sums | None:
        """Return the sums of all answers, or their batch; None if there are none or too few for a batch."""
        with self._store.transaction() as transaction:
            stored = list(transaction.reports(attempt.phase, attempt.number))
        found = [self.opened(plan, Group.parse(one.pseudonym), one.sealed) for one in stored]
        if not found:
            return None
        if summable(plan):
            return merge(plan, [Sums(plan=one.plan, sums=one.sums, reports=one.reports) for one in found])
        payloads = [payload for one in found for payload in _split(plan, one)]
        reports = [Report(plan=plan.digest, payload=payload) for payload in payloads]
        if len(reports) < plan.asked_mechanism.minimum_reports:
            return None
        return shuffle(plan, reports, SecureNoise())

    def opened(self, plan: Plan, group: Group, answer: bytes) -> SiteReport:
        """Open and check the answer of a site.

        Args:
            plan: The plan that the site was asked to answer.
            group: The site's part in the attempt.
            answer: The bytes of its `SiteAnswer`.

        Returns:
            The report of the site.

        Raises:
            Refused: The answer is malformed, was not signed by the site, was sealed for another place, or
                is not one that the stated number of honest users could have produced.
        """
        reply = read_reply(answer)
        if not isinstance(reply, SiteAnswer) or reply.plan != plan.digest:
            raise Refused("bad-answer", "the reply does not answer this plan")
        place = Place.of(plan.study, plan, group.attempt, group.pseudonym)
        site = self._sites.get(group.name)
        if site is None or not site.accepts(reply.sealed, place, reply.signature):
            raise Refused("bad-answer", "the site did not sign this answer")
        report = read_report(self._keys.open(reply.sealed, place, "report"))
        if report.plan != plan.digest or report.reports > group.places:
            raise Refused("bad-answer", "the report is for another plan, or for more users than were asked")
        try:
            _check(plan, report)
        except DpbanditsError as error:
            raise Refused("bad-answer", f"honest users cannot produce this report ({error})") from None
        return report


def _check(plan: Plan, report: SiteReport) -> None:
    """Raise an error unless `report.reports` honest users could have produced the report."""
    if not summable(plan):
        if report.sums:
            raise Refused("bad-answer", "sums, expected every report")
        plan.asked_mechanism.message.unpack(_split(plan, report))
        return
    if report.packed or len(report.sums) != plan.numbers:
        raise Refused("bad-answer", f"{len(report.sums)} sums, expected {plan.numbers}")
    modulus, (low, high) = 1 << plan.asked_mechanism.sum_bits, report_range(plan)
    residues = np.array(report.sums, dtype=object)
    signed = np.where(residues >= modulus // 2, residues - modulus, residues) if low < 0 else residues
    within = (signed >= low * report.reports) & (signed <= high * report.reports)
    if not ((residues >= 0) & (residues < modulus) & within).all():
        raise Refused("bad-answer", "a sum is out of range")


def _split(plan: Plan, report: SiteReport) -> Sequence[bytes]:
    """Return the single reports of a site."""
    size = plan.asked_mechanism.message.size
    if len(report.packed) != size * report.reports:
        raise Refused("bad-answer", "the packed reports have another length")
    return [report.packed[start : start + size] for start in range(0, len(report.packed), size)]
