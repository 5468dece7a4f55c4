"""A small federation in one process: a population, sites, and a grid that can lose messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from dpbandits._arrays import FloatArray
from dpbandits.actions import Actions
from dpbandits.federation import FederationDriver, Patience, Site, SiteKey, SiteLedger, federation_terms
from dpbandits.privacy import NoiseSource, PrivacyRequest, SimulatedNoise
from dpbandits.protocol import (
    Batch,
    Plan,
    Release,
    Report,
    Schedule,
    State,
    Study,
    Sums,
    analyze,
    ask,
    merge,
    shuffle,
    summable,
    sums_of,
    tell,
)
from dpbandits.service.client import Consent
from dpbandits.service.wire import KeyPair, SignedTerms
from dpbandits.storage import Store

from .population import Population

ACTIONS = Actions.generate("sphere", count=12, dimension=3, rng=3)
KEYS = KeyPair.new()
SITE_KEYS = [SiteKey(ec.generate_private_key(ec.SECP384R1())) for _ in range(4)]
TRUSTS = ("none", "central", "local", "shuffle")


def study_of(trust: str, cohorts: tuple[int, ...] = (40, 40), minimum_share: float = 0.5) -> Study:
    delta = 0 if trust == "local" else 1e-3
    privacy = PrivacyRequest(trust=trust, epsilon=20, delta=delta, minimum_share=minimum_share)
    schedule = Schedule(cohorts=cohorts, first_length=60, growth=4)
    return Study(actions=ACTIONS, horizon=5_000, privacy=privacy, schedule=schedule)


def with_terms(study: Study, keys: KeyPair = KEYS) -> tuple[Study, SignedTerms]:
    signed = SignedTerms.of(federation_terms(study, address="127.0.0.1:1", key=keys.public, run="0" * 32))
    return replace(study, terms=signed.digest), signed


def seeded(site: int) -> NoiseSource:
    return SimulatedNoise(np.random.default_rng(1000 + site))


@dataclass
class FakeGrid:
    """Conforms to `dpbandits.federation.Grid`. `lost` drops replies, `away` sites are not connected."""

    members: Mapping[str, Callable[[bytes], bytes]]
    away: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    asked: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def expected(self) -> int:
        return len(self.members)

    def sites(self) -> list[str]:
        return [name for name in self.members if name not in self.away]

    def ask(self, requests: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        replies = {}
        for name, request in requests.items():
            self.asked.append((name, request))
            answer = self.members[name](request)  # a silent site computes, and its reply is lost
            if name not in self.silent:
                replies[name] = answer
        return replies


class Time:
    """A clock on which nothing takes time except sleep and questions."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


QUICK = Patience(answer_seconds=10, join_seconds=5, resend_seconds=4, poll_seconds=1, attempts=3)


@dataclass
class Federation:
    """Sites and what is needed to drive them."""

    folder: Path
    study: Study
    count: int = 2
    users: int = 100
    keys: KeyPair = KEYS

    def __post_init__(self) -> None:
        self.study, self.signed = with_terms(self.study, self.keys)
        self.names = [f"site-{number}" for number in range(self.count)]
        self.grid = FakeGrid({name: self.site(number).reply for number, name in enumerate(self.names)})

    def consent(self) -> Consent:
        privacy = self.study.privacy
        return Consent(trusts=(privacy.trust,), epsilon=privacy.epsilon, delta=privacy.delta)

    def ledger(self, number: int) -> SiteLedger:
        return SiteLedger(self.folder / f"ledger-{number}.sqlite", self.signed.digest)

    def site(self, number: int, **more: object) -> Site:
        source = Population(self.study.actions, number, self.users)
        made = {
            "source": source,
            "key": SITE_KEYS[number],
            "noise": seeded(number),
            "consent": self.consent(),
            **more,
        }
        return Site(ledger=self.ledger(number), signed=self.signed, **made)  # type: ignore[arg-type]

    def driver(self, store: Store, **more: object) -> FederationDriver:
        clock = Time()
        more.setdefault("noise", SimulatedNoise(np.random.default_rng(7)))
        more.setdefault("patience", QUICK)
        more.setdefault("sites", {name: SITE_KEYS[number].public for number, name in enumerate(self.names)})
        return FederationDriver(
            self.study, store, keys=self.keys, grid=self.grid, now=clock, sleep=clock.sleep, **more
        )  # type: ignore[arg-type]

    def members(self, phase: int, attempt: int = 1) -> dict[int, list[str]]:
        return {number: self.ledger(number).members(phase, attempt) for number in range(self.count)}


def alone(
    federation: Federation, asked: Mapping[int, Mapping[int, list[str]]]
) -> tuple[State, list[Release]]:
    """The protocol's functions in one loop, with the users, the rewards and the noise of the federation.

    Args:
        federation: The sites.
        asked: For each phase, the users of each site that answered, sorted.
    """
    study, server = federation.study, SimulatedNoise(np.random.default_rng(7))
    noises = {number: seeded(number) for number in range(federation.count)}
    state, releases = study.begin(), list[Release]()
    while not state.ended:
        plan, release = ask(state), None
        if plan.phase in asked:
            parts = []
            for number, users in asked[plan.phase].items():
                if users:
                    averages = Population(study.actions, number, federation.users).averages(users, plan)
                    noise = noises[number]
                    parts.append(plan.asked_mechanism.randomize(plan.reported(averages), noise))
            release = analyze(plan, batch_of(plan, parts), server)
            releases.append(release)
        state = tell(state, plan, release)
    return state, releases


def batch_of(plan: Plan, parts: Sequence[FloatArray]) -> Batch | Sums:
    if summable(plan):
        flat = [part.reshape(len(part), plan.numbers, -1).sum(axis=(0, 2)) for part in parts]
        return merge(
            plan, [sums_of(plan, sums.tolist(), len(part)) for sums, part in zip(flat, parts, strict=True)]
        )
    rows = [row for part in parts for row in part]
    reports = [Report(plan=plan.digest, payload=plan.asked_mechanism.message.pack(row)) for row in rows]
    return shuffle(plan, reports, SimulatedNoise(np.random.default_rng(0)))
