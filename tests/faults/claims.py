"""What lies come to: which bodies of lying clients count, and what a lying shuffler can rightfully change.

A client may report what it likes within the range of the mechanism, and in split mode any residues at all. A
shuffler may withhold reports, say that there were too few, and add a number to the sums. The checker knows
each of these exactly, so it still computes the release that must come out.
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
    """A liar's body must be `refused`, be accepted and `left-out`, or count: a report, or bare residues."""

    fate: str = "counts"
    report: Report | None = None
    residues: tuple[int, ...] = ()


HONEST = Claim()


@dataclass(frozen=True, kw_only=True)
class Post:
    """What an honest client sent to where reports go, and the plans that it was lied to about before."""

    number: int
    url: str
    ticket: str
    token: str
    body: bytes
    told: tuple[Plan, ...] = ()


@dataclass
class Claims:
    """`made` by pseudonym and digest of the body; what is not in it is an honest client's."""

    made: dict[tuple[str, str], Claim] = field(default_factory=dict)
    posts: dict[tuple[str, bytes], Post] = field(default_factory=dict)
    heard: dict[str, bytes] = field(default_factory=dict)  # honest bodies by pseudonym: liars may see them

    def add(self, pseudonym: str, body: bytes, claim: Claim) -> bytes:
        self.made[pseudonym, hashlib.sha256(body).hexdigest()] = claim
        return body

    def of(self, pseudonym: str, digest: str) -> Claim:
        return self.made.get((pseudonym, digest), HONEST)


@dataclass
class Told:
    """What a lying shuffler has said that its coordinator has no means to refuse, by attempt."""

    failed: set[Key] = field(default_factory=set)
    hidden: set[Key] = field(default_factory=set)
    withheld: dict[Key, str] = field(default_factory=dict)
    forged: dict[Key, set[str]] = field(default_factory=dict)
    without: dict[Key, set[str]] = field(default_factory=dict)
    moved: dict[Key, tuple[tuple[int, ...], int]] = field(default_factory=dict)

    @property
    def spoilt(self) -> set[Key]:
        """Attempts that may fail with enough reports: the shuffler said so, or summed another set."""
        return self.failed | self.hidden | set(self.withheld)

    def left_out(self, key: Key) -> set[str]:
        """Whose reports the shuffler has kept from counting."""
        forged = self.forged.get(key, set()) & self.without.get(key, set())
        return forged | ({self.withheld[key]} if key in self.withheld else set())


def release_of(
    study: Study,
    plan: Plan,
    claims: dict[str, Claim],
    noise: SimulatedNoise,
    moved: tuple[tuple[int, ...], int] | None = None,
) -> Release:
    """The release of what these clients sent, with the number that a lying shuffler has added."""
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
