"""Sealed reports and shares: who can open them, how they are packed, and what is refused."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import Plan, add_up, ask, nothing, respond_with_averages, share_message
from dpbandits.service.wire import (
    KeyPair,
    Place,
    PublicKey,
    ReportSlot,
    split_shares,
)
from dpbandits.service.wire._sealing import OVERHEAD

from .helpers import small_study

PLACE = Place(study="s", phase=1, attempt=1, plan="p", pseudonym="n")
TRUSTS = ["none", "central", "local", "shuffle"]


def test_what_is_sealed_opens_in_its_place_and_nowhere_else() -> None:
    keys, other = KeyPair.new(), KeyPair.new()
    sealed = keys.public.seal(b"text", PLACE, "report")
    assert len(sealed) == len(b"text") + OVERHEAD
    assert b"text" not in sealed
    assert keys.open(sealed, PLACE, "report") == b"text"
    assert keys.public.seal(b"text", PLACE, "report") != sealed
    elsewhere = [
        replace(PLACE, **{name: "x" if isinstance(value, str) else 2}) for name, value in vars(PLACE).items()
    ]
    for place in elsewhere:
        with pytest.raises(Refused, match="cannot be decrypted"):
            keys.open(sealed, place, "report")
    for purpose in ("share-shuffler", "share-coordinator"):
        with pytest.raises(Refused, match="cannot be decrypted"):
            keys.open(sealed, PLACE, purpose)
    for bad in (b"", sealed[:-1], sealed + b"\0", sealed[:47], bytes(len(sealed))):
        with pytest.raises(Refused, match="cannot be decrypted"):
            keys.open(bad, PLACE, "report")
    with pytest.raises(Refused, match="cannot be decrypted"):
        other.open(sealed, PLACE, "report")


def test_keys_are_kept_in_files_of_their_owner(tmp_path: Path) -> None:
    keys, path = KeyPair.new(), tmp_path / "key.pem"
    keys.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyPair.load(path).public == keys.public == PublicKey.parse(str(keys.public))
    with pytest.raises(InvalidValue, match="no file yet"):
        keys.save(path)
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(InvalidValue, match="PEM"):
        KeyPair.load(tmp_path / "bad.pem")
    for text in ("", "zz", "00"):
        with pytest.raises(InvalidValue, match="public key"):
            PublicKey.parse(text)


def _plan(trust: str) -> Plan:
    return ask(small_study(trust).begin())


def _noise(seed: int) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


@pytest.mark.parametrize("trust", TRUSTS)
def test_reports_are_packed_without_loss_in_a_fixed_length(trust: str) -> None:
    plan = _plan(trust)
    for seed in range(20):
        averages = np.random.default_rng(seed).uniform(-2, 2, len(plan.support)).tolist()
        report = respond_with_averages(plan, averages, _noise(seed))
        message = plan.asked_mechanism.message
        assert len(report.payload) == message.size
        assert message.pack(message.unpack([report.payload])[0]) == report.payload


@pytest.mark.parametrize("trust", TRUSTS)
@given(data=st.data())
def test_any_bytes_are_a_report_or_refused(trust: str, data: st.DataObject) -> None:
    message = _plan(trust).asked_mechanism.message
    exact = st.binary(min_size=message.size, max_size=message.size)
    content = data.draw(st.one_of(st.binary(max_size=600), exact))
    try:
        report = message.unpack([content])[0]
    except InvalidValue:
        return
    assert message.pack(report) == content


def test_shares_add_up_and_each_is_uniform() -> None:
    plan = _plan("shuffle")
    assert plan.mechanism is not None
    modulus = 1 << plan.mechanism.sum_bits
    report = respond_with_averages(plan, [0.3] * len(plan.support), _noise(1))
    expected = add_up(plan, nothing(plan), [report.payload]).sums
    seen = list[tuple[int, ...]]()
    for _ in range(300):
        one, other = split_shares(plan, report.payload)
        assert len(one) == len(other) == share_message(plan).size
        mine, theirs = map(tuple, share_message(plan).unpack([one, other]).tolist())
        assert tuple((a + b) % modulus for a, b in zip(mine, theirs, strict=True)) == expected
        seen += [mine, theirs]
    # The mean of n uniform residues is more than 6 standard deviations off with probability below 1e-6.
    values = np.array(seen, dtype=np.float64).ravel() / modulus
    assert abs(values.mean() - 0.5) < 6 * np.sqrt(1 / 12 / values.size)


def test_what_is_no_share_is_refused() -> None:
    plan = _plan("shuffle")
    size, slot = share_message(plan).size, ReportSlot(plan=plan, place=PLACE, mode="split")
    for bad in (b"", bytes(size - 8), b"\xff" * size, b"\x7f" * size):
        with pytest.raises(InvalidValue, match="payload"):
            share_message(plan).unpack([bad])
        with pytest.raises(Refused, match="unreadable"):
            slot.check(bad)
    slot.check(bytes(size))
