"""The expected effect of lies: which bodies of lying clients count, and which lies of a shuffler succeed.

A client can report any value in the range of the mechanism, and in split mode any residues. A shuffler can
withhold reports, claim that there were too few, and add a number to the sums. Nobody can detect these lies.
The checker knows each of them, so it can still compute the release that must result.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np

from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import (
    Plan,
    Release,
    Report,
    Study,
    Sums,
    add_up,
    analyze,
    nothing,
    respond_with_averages,
    shuffle,
)
from tests.service.helpers import client_averages, client_noise

Key = tuple[int, int]
"""Phase and attempt."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What must happen to the body of a client.

    Attributes:
        fate: "refused"; "left-out" for a body that is accepted but cannot be read; or "counts".
        report: The report in a body that counts; None if the client is honest.
        residues: The residues in a body that counts but that no mechanism could produce.
    """

    fate: str = "counts"
    report: Report | None = None
    residues: tuple[int, ...] = ()


HONEST = Claim()


@dataclass(frozen=True, kw_only=True)
class Post:
    """A report that an honest client posted, and the false plans (`told`) that it received before."""

    number: int
    url: str
    ticket: str
    token: str
    body: bytes
    told: tuple[Plan, ...] = ()


@dataclass
class Claims:
    """The claims of all clients.

    Attributes:
        made: The claims of liars, by pseudonym and digest of the body. All other bodies are honest.
        posts: The reports that honest clients posted.
        heard: The bodies of honest reports, by pseudonym. Liars may see and reuse them.
    """

    made: dict[tuple[str, str], Claim] = field(default_factory=dict)
    posts: dict[tuple[str, bytes], Post] = field(default_factory=dict)
    heard: dict[str, bytes] = field(default_factory=dict)

    def add(self, pseudonym: str, body: bytes, claim: Claim) -> bytes:
        self.made[pseudonym, hashlib.sha256(body).hexdigest()] = claim
        return body

    def of(self, pseudonym: str, digest: str) -> Claim:
        return self.made.get((pseudonym, digest), HONEST)


@dataclass
class Told:
    """The lies of a shuffler that the coordinator cannot detect, by attempt.

    Attributes:
        failed: Attempts that the shuffler has called failed.
        hidden: Attempts with a share that was hidden from the coordinator but is in the shuffler's sums.
        withheld: The pseudonym whose report the shuffler withholds.
        forged: The pseudonyms whose shares the shuffler has replaced.
        without: The pseudonyms that the coordinator has left out because it could not read their shares.
        moved: A number that was added to the sums, and a change of the number of reports.
    """

    failed: set[Key] = field(default_factory=set)
    hidden: set[Key] = field(default_factory=set)
    withheld: dict[Key, str] = field(default_factory=dict)
    forged: dict[Key, set[str]] = field(default_factory=dict)
    without: dict[Key, set[str]] = field(default_factory=dict)
    moved: dict[Key, tuple[tuple[int, ...], int]] = field(default_factory=dict)

    @property
    def spoilt(self) -> set[Key]:
        """Attempts that may fail despite enough reports: the shuffler said so, or summed another set."""
        return self.failed | self.hidden | set(self.withheld)

    def left_out(self, key: Key) -> set[str]:
        """Return the pseudonyms whose reports do not count because of the shuffler."""
        forged = self.forged.get(key, set()) & self.without.get(key, set())
        return forged | ({self.withheld[key]} if key in self.withheld else set())


def release_of(
    study: Study,
    plan: Plan,
    claims: dict[str, Claim],
    noise: SimulatedNoise,
    moved: tuple[tuple[int, ...], int] | None = None,
) -> Release:
    """Return the release of these clients' reports, with the number that a lying shuffler has added."""
    sent = {name: _report(study, plan, name, claim) for name, claim in sorted(claims.items())}
    reports = [one for one in sent.values() if one is not None]
    if len(reports) == len(sent) and moved is None:
        batch = shuffle(plan, reports, SimulatedNoise(np.random.default_rng(0)))
        return analyze(plan, batch, noise)
    offset, more = moved or ((0,) * plan.numbers, 0)
    assert plan.mechanism is not None
    modulus, totals = 1 << plan.mechanism.sum_bits, list(offset)
    for name, report in sent.items():
        residues = (
            claims[name].residues if report is None else add_up(plan, nothing(plan), [report.payload]).sums
        )
        totals = [(total + one) % modulus for total, one in zip(totals, residues, strict=True)]
    sums = Sums(plan=plan.digest, sums=tuple(totals), reports=len(sent) + more)
    return analyze(plan, sums, noise)


def _report(study: Study, plan: Plan, name: str, claim: Claim) -> Report | None:
    if claim.report is not None or claim.residues:
        return claim.report
    return respond_with_averages(plan, client_averages(study.actions, plan, name), client_noise(name))
