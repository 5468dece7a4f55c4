"""A dishonest coordinator gets no report, and a client that does not consent spends no participation.

Each test is an attack that worked on an earlier version. The client is that of the SDK over real HTTP, or
`dpbandits client` as a process.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from dpbandits.errors import Refused
from dpbandits.privacy.trust import ShuffledBits, SummedShares
from dpbandits.protocol import Plan
from dpbandits.service.client import ClientCore, Consent
from dpbandits.service.shared import Backoff, Transport
from dpbandits.service.wire import KeyPair, PartyTerms, Pins, PublicKey, SignedTerms, SigningKey, Terms

from .blocking_client import Client, take_part_in_turn
from .helpers import small_study
from .hostile import HostileCoordinator
from .processes import ENVIRONMENT, free_port
from .test_terms import agreed

CONSENT = Consent(trusts=("local", "shuffle"), epsilon=1.0, delta=1e-6)
QUICK = Backoff(tries=2, first_seconds=0.001)
VICTIM = [0.476, 0.093]


def lenient(mode: str = "trusted", trust: str = "shuffle", **changes: Any) -> Terms:
    """Return terms that promise (1, 1e-6)-DP; a malicious coordinator chose everything else."""
    terms, _, _ = agreed(small_study(trust), mode)
    promised: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "minimum_reports": 1, "largest_cohort": 2**30}
    return msgspec.structs.replace(terms, **{**promised, **changes})


def plan_for(signed: SignedTerms, mechanism: Any, **fields: Any) -> Plan:
    numbers = mechanism.coordinates
    return Plan(
        study=signed.digest,
        phase=1,
        support=tuple(range(numbers)),
        plays=(100,) * numbers,
        rank=numbers,
        mechanism=mechanism,
        **fields,
    )


def attempt(hostile: HostileCoordinator, consent: Consent = CONSENT, pins: Pins | None = None) -> str:
    """Take part as a client with a valid enrolment code, and return the error or the outcome."""
    pinned = Pins(terms=hostile.signed.digest) if pins is None else pins
    with hostile.served() as url, Transport(patience=QUICK) as transport:
        client = Client(ClientCore(url=url, consent=consent, pins=pinned), transport)
        try:
            take_part_in_turn(client, "c" * 43, lambda plan: VICTIM[: len(plan.support)], patience=2)
        except Refused as refusal:
            return str(refusal)
    return "took part"


BARE = ShuffledBits(
    coordinates=2,
    cohort=10,
    bound=1.0,
    reach=1.0,
    levels=15,
    noise_bits=18,
    noise_probability=1e-10,
    least_reports=10,
)


@pytest.mark.parametrize("mode", ["trusted", "split"])
@pytest.mark.parametrize("chance", [1e-10, 1e-300, 0.4999, 1 - 1e-9])
def test_a_plan_whose_noise_bits_are_loaded_gets_no_answer(mode: str, chance: float) -> None:
    signed = SignedTerms.of(lenient(mode, noises=("binomial",)))
    hostile = HostileCoordinator(signed, plan_for(signed, replace(BARE, noise_probability=chance)))
    shown = attempt(hostile)
    assert "the noise does not give" in shown or "fair coins" in shown
    assert not hostile.reported


def test_the_papers_bits_need_a_consent_of_their_own() -> None:
    signed = SignedTerms.of(lenient(epsilon=1.0, delta=1e-6, noises=("binomial",)))
    noisy = replace(BARE, noise_bits=2 * 10**6, noise_probability=0.25, cohort=100, least_reports=100)
    hostile = HostileCoordinator(signed, plan_for(signed, noisy))
    assert "fair coins" in attempt(hostile)
    assert not hostile.reported


def test_a_plan_without_enough_noise_gets_no_answer() -> None:
    signed = SignedTerms.of(lenient(noises=("binomial",)))
    for bits in (1, 18, 100):
        hostile = HostileCoordinator(
            signed, plan_for(signed, replace(BARE, noise_bits=bits, noise_probability=0.5))
        )
        assert "does not give" in attempt(hostile)
        assert not hostile.reported


def test_terms_without_a_shuffler_are_no_terms_of_the_shuffle_model() -> None:
    text = msgspec.json.encode({**msgspec.to_builtins(lenient()), "shuffler": None}).decode()
    hostile = HostileCoordinator(SignedTerms(terms=text))
    assert "unreadable" in attempt(hostile)
    assert hostile.posted == []


def test_a_plan_of_another_trust_model_than_the_terms_gets_no_answer() -> None:
    """The terms say shuffle, but the plan is central: the report would have no noise."""
    _, _, central = agreed(small_study("central"))
    signed = SignedTerms.of(lenient())
    assert central.mechanism is not None
    hostile = HostileCoordinator(signed, replace(central, study=signed.digest))
    assert "trust model" in attempt(hostile)
    assert not hostile.reported


@pytest.mark.parametrize("mode", ["trusted", "split"])
def test_the_coordinator_cannot_name_the_shuffler(mode: str) -> None:
    """The coordinator names itself as the shuffler, with its own address and key."""
    keys = KeyPair.new()
    port = free_port()
    own = PartyTerms(url=f"http://127.0.0.1:{port}", key=str(keys.public))
    signed = SignedTerms.of(lenient(mode, coordinator=own, shuffler=own))
    real = KeyPair.new().public
    for pins, expected in (
        (Pins(), "not-pinned"),
        (Pins(terms="0" * 64), "other-terms"),
        (Pins(operator_key=SigningKey.new().public), "other-terms"),
        (Pins(shuffler_url="https://shuffler.test", shuffler_key=real), "other-terms"),
        (Pins(shuffler_key=real), "other-terms"),
        (Pins(shuffler_key=keys.public), "not-pinned"),
    ):
        hostile = HostileCoordinator(signed)
        assert expected in attempt(hostile, pins=pins)
        assert hostile.posted == []  # no code is spent


@pytest.mark.parametrize("trust", ["central", "local"])
def test_the_coordinator_cannot_leave_the_pinned_shuffler_out(trust: str) -> None:
    """The client accepts every trust model, but knows that its report goes to a shuffler."""
    signed = SignedTerms.of(lenient(trust=trust))
    anything = replace(CONSENT, trusts=("central", "local", "shuffle"))
    pins = Pins(shuffler_url="https://shuffler.test", shuffler_key=KeyPair.new().public)
    hostile = HostileCoordinator(signed)
    assert "the terms name no shuffler" in attempt(hostile, anything, pins)
    assert hostile.posted == []


def test_a_client_that_wants_a_split_does_not_report_to_a_trusted_shuffler() -> None:
    hostile = HostileCoordinator(SignedTerms.of(lenient("trusted")))
    assert "mode: got trusted" in attempt(hostile, replace(CONSENT, modes=("split",)))
    assert hostile.posted == []


@pytest.mark.parametrize(
    ("consent", "expected"),
    [
        ({"least_silent_share": 0.5}, "silent_share"),
        ({"largest_cohort": 1000}, "largest_cohort: got "),
        ({"minimum_cohort": 2}, "minimum_reports: got 1, expected at least 2"),
    ],
)
def test_consent_limits_what_an_inventing_coordinator_gains(consent: dict[str, Any], expected: str) -> None:
    hostile = HostileCoordinator(SignedTerms.of(lenient()))
    assert expected in attempt(hostile, replace(CONSENT, **consent))
    assert hostile.posted == []


def test_what_is_left_to_one_real_client_among_invented_ones_is_what_consent_asked_for() -> None:
    """At n = 1,000 the other clients may be invented; with a silent share, the real noise still suffices."""
    from dpbandits.privacy import PrivacyRequest, calibrate

    for silent in (0.0, 0.9):
        request = PrivacyRequest(trust="shuffle", epsilon=1.0, delta=1e-6, silent_share=silent)
        made = calibrate(request, coordinates=20, cohort=1000, bound=1.0, shape="ball")
        assert isinstance(made, SummedShares)
        real = round(1000 * (1 - silent))
        left = replace(made, least_reports=real, silent_share=0.0) if silent else made
        assert left.event.delta(1.0) <= 1e-6
    usual = calibrate(
        PrivacyRequest(trust="shuffle", epsilon=1.0, delta=1e-6),
        coordinates=20,
        cohort=1000,
        bound=1.0,
        shape="ball",
    )
    assert isinstance(usual, SummedShares)
    left_over = [
        replace(usual, least_reports=real).event.delta(epsilon)
        for real, epsilon in ((1, 8.0), (10, 8.0), (100, 3.6))
    ]
    assert left_over == pytest.approx([0.994, 0.0065, 7.1e-7], rel=0.02)  # as docs/privacy.md says


def test_terms_may_not_change_after_a_client_has_agreed() -> None:
    first, second = (
        SignedTerms.of(lenient(trust="local", mode="")),
        SignedTerms.of(lenient(trust="local", run="1" * 32)),
    )
    core = ClientCore(url="", consent=CONSENT)
    core.memory.terms = first.digest
    for signed, outcome in ((second, "other-terms"), (first, "joined")):
        hostile = HostileCoordinator(signed)
        with hostile.served() as url, Transport(patience=QUICK) as transport:
            core.url, core.agreed = url, None
            client = Client(core, transport)
            if outcome == "joined":
                client.enrol("c" * 43)
            else:
                with pytest.raises(Refused, match=outcome):
                    client.enrol("c" * 43)


HOSTILE_JSON = [
    b"{}",
    b"[]",
    b"1e999",
    b'"x"',
    b'{"study":1}',
    b"[" * 5000 + b"]" * 5000,
    b'{"mechanism":{"kind":"summed-shares"}}',
]


@pytest.mark.parametrize("body", HOSTILE_JSON, ids=lambda body: body[:20])
def test_a_plan_that_is_none_is_refused_in_words(body: bytes) -> None:
    hostile = HostileCoordinator(SignedTerms.of(lenient(trust="local", mode="")), plan_bytes=body)
    assert "no-consent" in attempt(hostile) or "unreadable" in attempt(hostile)
    assert not hostile.reported


def test_the_command_refuses_before_it_spends_a_code(tmp_path: Path) -> None:
    """`dpbandits client` against a dishonest coordinator prints one line, exits with 2, and posts nothing."""
    (tmp_path / "codes").write_text("c" * 43 + "\n")
    np.savetxt(tmp_path / "rewards.csv", np.array([[0.1] * 12]), delimiter=",")
    keys, bare = KeyPair.new(), lenient("trusted")
    own = PartyTerms(url="http://127.0.0.1:1", key=str(keys.public))
    for terms, options, expected in (
        (bare, [], "not-pinned"),
        (bare, ["--terms", "0" * 64], "other-terms"),
        (bare, ["--shuffler-key", str(keys.public), "--shuffler-url", "http://x"], "other-terms"),
        (msgspec.structs.replace(bare, shuffler=own), ["--operator-key", "ab" * 32], "other-terms"),
        (bare, ["--terms", SignedTerms.of(bare).digest, "--mode", "split"], "mode: got trusted"),
        (bare, ["--terms", SignedTerms.of(bare).digest, "--silent-share", "0.5"], "silent_share"),
        (bare, ["--terms", SignedTerms.of(bare).digest, "--epsilon", "0.5"], "expected (0.5, "),
    ):
        hostile = HostileCoordinator(SignedTerms.of(terms))
        with hostile.served() as url:
            files = ["--codes", str(tmp_path / "codes"), "--rewards", str(tmp_path / "rewards.csv")]
            command = [sys.executable, "-m", "dpbandits.cli", "client", url, *files, *options]
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=60, env=ENVIRONMENT, check=False
            )
        assert done.returncode == 2, done.stderr
        assert expected in done.stderr
        assert done.stderr.count("\n") == 1
        assert hostile.posted == []


def test_a_pinned_key_reads_as_it_is_written() -> None:
    key = KeyPair.new().public
    assert PublicKey.parse(str(key)) == key
