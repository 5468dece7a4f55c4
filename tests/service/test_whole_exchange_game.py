"""The distinguishing game on whole exchanges with the noise of the servers, in mode `verified`.

The attacker is one of the servers. All clients but one are corrupted: the attacker knows their reports. A
fair coin decides whether a number of the remaining client is the smallest or the largest one. The attacker
has every message that its party gets in the exchange, removes what it knows, and guesses each coin. The
shares and proofs say nothing about the coins (test_verified_views.py). What is left is the noise of the other
server.

Servers draw noise for each number, so one exchange has as many games as there are numbers. Two kinds are
counted. In the first kind the attacker guesses one coin. In the second kind it knows that two coins differ,
and guesses from the difference which one is heads: it would always win if both numbers had the same noise. By
the accountant, nobody wins a game with a probability above (1 + δ(0))/2.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SecureNoise
from dpbandits.privacy.noise import GaussianLaw
from dpbandits.privacy.trust import ServerNoise
from dpbandits.protocol import Plan, Release, Schedule, decode, nothing, report_totals, respond_with_averages
from dpbandits.service.shuffler._own_noise import noised as own_noised
from dpbandits.service.wire import Place, ProvedReports, hashed
from dpbandits.service.wire._binding import TAG

from .helpers import Deployment, Member, sealed_body, small_study

NUMBERS, COHORT, EXCHANGES = 20, 3, 14
# So large that few exchanges suffice. For a smaller one only the scale of the noise differs.
EPSILON = 100.0
FALSE_ALARM = 1e-7  # of each of the four counts, so below 10⁻⁶ together


class Overheard:
    """One exchange. It keeps what the shuffler told the coordinator, which is what the coordinator sees."""

    def __init__(self) -> None:
        privacy = PrivacyRequest(trust="shuffle", epsilon=EPSILON, delta=1e-3, noise="server-gaussian")
        study = small_study(
            "shuffle",
            privacy=privacy,
            actions=Actions.generate("sphere", count=40, dimension=NUMBERS, rng=3),
            schedule=Schedule(cohorts=(COHORT, COHORT), first_length=60, growth=8),
        )
        self.deployed = Deployment(study=study, mode="verified", noise=SecureNoise())
        self.pages, self.sums = list[Any](), None
        link = self.deployed.link
        assert link is not None
        honest_pages, honest_sums = link.verifiers, link.sums

        def verifiers(*given: Any) -> Any:
            for page in honest_pages(*given):
                self.pages += page
                yield page

        def sums(*given: Any) -> Any:
            self.sums = honest_sums(*given)
            return self.sums

        link.verifiers, link.sums = verifiers, sums  # type: ignore[method-assign]
        self.coins = np.zeros(0, dtype=np.int64)

    def run(self) -> None:
        deployed = self.deployed
        deployed.advance()
        members = deployed.join(COHORT)
        deployed.play()
        self.plan: Plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
        one = np.random.default_rng().integers(0, 2, -(-self.plan.numbers // 2))
        self.coins = np.stack([one, 1 - one], axis=1).ravel()[: self.plan.numbers]
        self.known = np.zeros(self.plan.numbers, dtype=np.int64)
        honest = random.SystemRandom().randrange(COHORT)
        for place, member in enumerate(members):
            ends = self.coins if place == honest else np.full(self.plan.numbers, place % 2)
            report = respond_with_averages(self.plan, (2.0 * ends - 1).tolist(), SecureNoise())
            self._send(member, report)
            totals = report_totals(self.plan, report.payload)
            assert totals.tolist() == (ends * self.mechanism.levels).tolist()
            self.known += 0 if place == honest else totals
        deployed.clock.time += deployed.timing.report_seconds + 1
        deployed.advance()
        with deployed.store.transaction() as transaction:
            (record,) = transaction.releases()
        self.means = np.array(decode(record.body, Release).means)
        deployed.close()

    @property
    def mechanism(self) -> ServerNoise:
        mechanism = self.plan.asked_mechanism
        assert isinstance(mechanism, ServerNoise)
        return mechanism

    def _send(self, member: Member, report: Any) -> None:
        place = self.deployed.context.place(self.plan, 1, member.pseudonym)
        keys = (self.deployed.keys.public, self.deployed.shuffler_keys.public)
        credential = hashed(member.token)
        self.deployed.send(member, sealed_body(self.plan, report, place, *keys, "verified", credential))

    def by_coordinator(self) -> Any:
        """What the coordinator knows of the last client: its own shares, and what the shuffler told it."""
        assert self.sums is not None
        parts = [
            self.deployed.keys.open(sealed, self._place(name), "share-coordinator")[:-TAG]
            for name, sealed, _ in self.pages
        ]
        own, count = self._proved.added(1, parts)
        assert count == COHORT
        return np.array(self._proved.prio3.unshard([self.sums.share, own], count, signed=True)) - self.known

    def by_shuffler(self) -> Any:
        """What the shuffler knows of the last client: the release, without its own noise."""
        assert self.deployed.link is not None
        assert self.sums is not None
        lattice, prio3 = self.mechanism.lattice, self._proved.prio3
        centred = self.means - self.plan.centre + lattice.reach
        nobody = bytes(prio3.aggregate_share_size)
        noised = own_noised(
            self.deployed.link.shuffler.context, self.plan, 1, nothing(self.plan), nobody, self.sums.checksum
        )
        own = np.array(prio3.unshard([noised[1]], 0, signed=True))
        return np.rint(centred * COHORT / lattice.step) - own - self.known

    def _place(self, pseudonym: str) -> Place:
        return self.deployed.context.place(self.plan, 1, pseudonym)

    @property
    def _proved(self) -> ProvedReports:
        return ProvedReports.of(self.plan, self._place(""))


def _won(exchanges: int) -> tuple[Counter[str], Counter[str], ServerNoise]:
    """Return how many games there were, and how many of them each server has won."""
    played, won = Counter[str](), Counter[str]()
    for _ in range(exchanges):
        exchange = Overheard()
        exchange.run()
        levels, coins = exchange.mechanism.levels, exchange.coins
        pairs = len(coins) // 2
        for server in ("coordinator", "shuffler"):
            left = getattr(exchange, f"by_{server}")()
            played[f"{server}, one"] += len(coins)
            won[f"{server}, one"] += int(((left > levels / 2) == coins).sum())
            first, second = left[: 2 * pairs : 2], left[1 : 2 * pairs : 2]
            played[f"{server}, two"] += pairs
            won[f"{server}, two"] += int(((first > second) == coins[: 2 * pairs : 2]).sum())
    return played, won, exchange.mechanism


def _limits(played: Counter[str], mechanism: ServerNoise) -> dict[str, int]:
    """Return what the counts exceed with probability at most `FALSE_ALARM` if the guarantee holds."""
    found = dict[str, int]()
    for name, games in played.items():
        most, less = (
            (1 + GaussianLaw(scale=scale).event(1 + name.endswith("two"), mechanism.levels).delta(0)) / 2
            for scale in (mechanism.scale, mechanism.scale / 2)
        )
        found[name] = int(binom.isf(FALSE_ALARM, games, most))
        if name.endswith("one"):  # half the noise is missed with probability below 10⁻⁶
            assert binom.cdf(found[name], games, less) < 1e-6
    return found


def test_neither_server_wins_more_often_than_the_guarantee_allows() -> None:
    played, won, mechanism = _won(EXCHANGES)
    limits = _limits(played, mechanism)
    assert {name: count for name, count in won.items() if count > limits[name]} == {}


def test_half_of_the_noise_is_noticed_by_both_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = GaussianLaw.draw
    monkeypatch.setattr(
        GaussianLaw, "draw", lambda law, *given: honest(replace(law, scale=law.scale / 2), *given)
    )
    played, won, mechanism = _won(EXCHANGES)
    limits = _limits(played, mechanism)
    assert {"coordinator, one", "shuffler, one"} <= {name for name in won if won[name] > limits[name]}
