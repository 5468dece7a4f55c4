"""A page of the reports of a closed collection."""

from __future__ import annotations

from dataclasses import dataclass

from dpbandits.protocol import Plan
from dpbandits.service.wire import PublicKey
from dpbandits.storage import StoredReport


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page of the reports of a closed collection, with what their verification needs.

    Attributes:
        study: The digest of the terms.
        plan: The plan of the phase.
        attempt: The attempt at the phase.
        coordinator: The public key of the coordinator.
        reports: At most 1,000 reports, in the order of pseudonyms.
    """

    study: str
    plan: Plan
    attempt: int
    coordinator: PublicKey
    reports: tuple[StoredReport, ...]
