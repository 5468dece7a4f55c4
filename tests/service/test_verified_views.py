"""What coordinator and shuffler see in mode `verified`: two games, and planted errors that lose them.

In the first game a party has to tell reports of the highest from reports of the lowest rewards, by everything
that it can open and everything that the other party tells it about them. Reports have no noise of clients
here, so a leak of a single bit shows.

In the second game all clients but one are corrupted, and the servers add the noise. The audit of the library
plays it on the sums that each server sees, with the code that draws and adds the noise in the service.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from dpbandits.privacy import NoiseSource, PrivacyRequest, SecureNoise, SimulatedNoise, audit
from dpbandits.privacy.trust import ServerNoise
from dpbandits.protocol import Plan, analyze, nothing, respond_with_averages, sums_of
from dpbandits.service.coordinator._fingerprint import Fingerprint
from dpbandits.service.shuffler import ShufflerContext
from dpbandits.service.shuffler._own_noise import noised as own_noised
from dpbandits.service.wire import KeyPair, Place, ProvedReports, _proofs
from dpbandits.vdaf import HELPER, NONCE_SIZE
from dpbandits.vdaf._derivation import Derivation

from .helpers import Deployment, small_study

KEY = bytes(range(32))
FIXED, FIXED_STUDY = KeyPair(X25519PrivateKey.from_private_bytes(KEY)), "5" * 64
FALSE_ALARM = 1e-6


@pytest.fixture(scope="module")
def deployed() -> Any:
    privacy = PrivacyRequest(trust="shuffle", epsilon=8, delta=1e-3, noise="server-gaussian")
    deployed = Deployment(study=small_study("shuffle", privacy=privacy), mode="verified")
    deployed.advance()
    yield deployed
    deployed.close()


@pytest.fixture(scope="module")
def plan(deployed: Deployment) -> Plan:
    found: Plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    return found


def _bits(rows: list[bytes]) -> np.ndarray[Any, Any]:
    return np.unpackbits(np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(len(rows), -1), axis=1)


def _views(plan: Plan, reward: float, bodies: int) -> list[np.ndarray[Any, Any]]:
    """Return the bits that shuffler and coordinator have of reports of a client with this reward."""
    noise = SimulatedNoise(np.random.default_rng(3))
    payload = respond_with_averages(plan, [reward] * len(plan.support), noise).payload
    proved = ProvedReports.of(plan, Place.of(plan.study, plan, 1, ""))
    ones, others = zip(*(proved.parts(payload) for _ in range(bodies)), strict=True)
    answers, prio3 = proved.answers(KEY, ones), proved.prio3
    _, own = prio3.prepare_batch(KEY, HELPER, *proved._cut(others))
    size, field = prio3.verifier_elements * 8, prio3.circuit.field
    shares = [[(share or b"")[:size] for share in side] for side in (answers, own)]
    one, other = (field.decode_rows(rows, prio3.verifier_elements)[0] for rows in shares)
    verifiers = field.encode_rows(field.add(one, other))  # the coordinator can add up both shares
    told = [part + answer + both for part, answer, both in zip(others, answers, verifiers, strict=True)]
    return [_bits(list(ones)), _bits(told)]


def _told_apart(plan: Plan, bodies: int) -> tuple[bool, bool]:
    """Whether shuffler and coordinator see a bit whose frequency differs; by chance below 10⁻⁶: Hoeffding."""
    found = list[bool]()
    for high, low in zip(_views(plan, 1.0, bodies), _views(plan, -1.0, bodies), strict=True):
        difference = np.abs(high.mean(axis=0) - low.mean(axis=0))
        limit = np.sqrt(np.log(2 * difference.size / FALSE_ALARM) / bodies)
        assert limit < 1  # a bit that is always 0 in one world and always 1 in the other is noticed
        found.append(bool((difference > limit).any()))
    return found[0], found[1]


def test_neither_party_can_tell_the_reports_of_two_clients_apart(plan: Plan) -> None:
    assert _told_apart(plan, 150) == (False, False)


def test_randomness_that_is_used_twice_tells_the_shuffler(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = iter(range(10**6))
    monkeypatch.setattr(
        _proofs.os, "urandom", lambda size: next(fixed).to_bytes(16) if size == NONCE_SIZE else bytes(size)
    )
    assert _told_apart(plan, 40)[0]


def test_a_proof_without_its_own_randomness_tells_the_coordinator(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Derivation.prove_randomness
    monkeypatch.setattr(Derivation, "prove_randomness", lambda self, seeds: 0 * honest(self, seeds))
    assert _told_apart(plan, 150) == (False, True)


# The sums that a server sees if all other clients are corrupted. Keys and study are fixed, so
# that the keyed noise is the same in every run of the tests.

Seen = Callable[[Plan, list[int], int], list[int]]


def _by_shuffler(_deployed: Deployment) -> Seen:
    """Return what the coordinator learns of totals from the shuffler's aggregate share."""
    context = ShufflerContext(keys=FIXED, mode="verified")

    def seen(plan: Plan, totals: list[int], play: int) -> list[int]:
        prio3 = ProvedReports.of(plan, Place.of(plan.study, plan, 1, "")).prio3
        mask = [int.from_bytes(os.urandom(7)) for _ in totals]
        own, theirs = (
            prio3.shift(bytes(prio3.aggregate_share_size), numbers)
            for numbers in (mask, [total - one for total, one in zip(totals, mask, strict=True)])
        )
        _, noised = own_noised(context, plan, 1, nothing(plan), theirs, f"set {play}")
        return prio3.unshard([noised, own], plan.cohort, signed=True)

    return seen


def _by_coordinator(deployed: Deployment) -> Seen:
    """Return what the shuffler learns of totals from the release, if it subtracts its own noise."""
    study = replace(deployed.study, terms=FIXED_STUDY)
    context = replace(deployed.context, study=study, keys=FIXED, noise=SecureNoise())

    def seen(plan: Plan, totals: list[int], play: int) -> list[int]:
        made_of = Fingerprint(context, plan, 1)
        made_of.add("sums", f"{totals} {play}".encode())
        release = analyze(plan, sums_of(plan, totals, plan.cohort), made_of.noise())
        lattice = plan.mechanism.lattice  # type: ignore[union-attr]
        centred = np.array(release.means) - plan.centre + lattice.reach
        return [round(one) for one in centred * plan.cohort / lattice.step]

    return seen


@pytest.mark.parametrize("server", [_by_shuffler, _by_coordinator])
def test_the_noise_of_one_server_is_within_the_guarantee_and_half_of_it_is_not(
    deployed: Deployment, plan: Plan, server: Callable[[Deployment], Seen]
) -> None:
    """The audit raises a false alarm with probability at most 10⁻⁶."""
    plan, seen, plays = replace(plan, study=FIXED_STUDY), server(deployed), iter(range(10**9))
    mechanism = plan.asked_mechanism
    assert isinstance(mechanism, ServerNoise)

    def reveals(given: Plan) -> Any:
        def views(_: Any, averages: Any, noise: NoiseSource) -> Any:
            sent = mechanism.randomize(averages.reshape(-1, mechanism.coordinates), noise)
            sums = sent.reshape(averages.shape).sum(axis=1)
            rows = [seen(given, row.tolist(), next(plays)) for row in sums]
            return np.array(rows) % (1 << mechanism.modulus_bits)

        return views

    noise, less = SimulatedNoise(np.random.default_rng(1)), replace(mechanism, scale=mechanism.scale / 2)
    claim: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-3, "samples": 600}
    assert not audit(mechanism, noise, reveals=reveals(plan), **claim).violated
    assert audit(mechanism, noise, reveals=reveals(replace(plan, mechanism=less)), **claim).violated
