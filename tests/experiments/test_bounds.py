"""The paper's bounds: their terms, computed again from its proofs."""

from __future__ import annotations

import math

import pytest

from dpbandits.errors import InvalidValue
from dpbandits.experiments._bounds import dpe_communication, dpe_regret, pe_regret
from dpbandits.simulation import Setting

PAPER = Setting.paper(preset="paper")
S = 80 * math.log(math.log(20)) + 16
LOG = math.log(1e9)


def test_the_terms_of_dpe_are_those_of_its_proof() -> None:
    terms = dpe_regret(PAPER)
    root = 2**0.1  # √q
    assert terms["rewards"] == pytest.approx(8 * root / (root - 1) * math.sqrt(40 * 2**0.8 * 1e6**0.2 * LOG))
    assert terms["clients"] == pytest.approx(1.6 * math.sqrt(2 * 2**0.8 * LOG) * 1e6**0.6)
    series = sum(2 ** (-0.4 * phase) for phase in range(1, 200))
    rounding = 2 * (2 + S) + 20 * S * math.sqrt(20 * LOG) + 0.4 * series * S * math.sqrt(2 * LOG)
    assert terms["rounding"] == pytest.approx(rounding)
    assert terms["failure"] == pytest.approx(4 * math.log2(1e6))
    assert terms["privacy"] == 0


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize("alpha", [0.5, 0.8])
def test_privacy_terms_bound_the_sums_over_phases_they_stand_for(trust: str, alpha: float) -> None:
    setting = PAPER.changed(trust=trust, alpha=alpha, epsilon=10, delta=0.25)
    noise = 2 * math.sqrt(2 * math.log(5)) / 10
    if trust == "shuffle":
        noise = math.sqrt(360 * math.log(16 * S)) * 18 * math.sqrt(math.log(8)) / 10
    power = alpha / 2 if trust == "local" else alpha
    phases = range(1, int(math.log2(1e6 / 2)) + 1)
    summed = sum(2 * 2 ** ((1 - power) * phase) + S / 2 ** (power * phase) for phase in phases)
    exact = 8 * noise * S * math.sqrt(40 * LOG) * summed
    assert exact <= dpe_regret(setting)["privacy"] <= 3 * exact


def test_the_printed_sum_of_the_central_model_is_too_small() -> None:
    """Without the restored factor q = 2^(1−α), the bound would not cover the sum over phases."""
    q = 2**0.2
    phases = round(math.log2(1e15 / 2))
    summed = sum(2 * q**phase for phase in range(1, phases + 1))
    printed = 2 * q**phases / (q - 1)
    assert printed < summed <= q * printed


def test_the_terms_of_pe() -> None:
    plain, central, local, shuffle = (
        pe_regret(PAPER.changed(trust=trust)) for trust in ("none", "central", "local", "shuffle")
    )
    assert plain["rewards"] == pytest.approx(32 * math.sqrt(4e7 * LOG))
    assert plain["privacy"] == 0
    noise = 2 * math.sqrt(2 * math.log(5)) / 10
    scale = 16 * 20 * math.sqrt(2 * S * LOG)
    assert central["privacy"] == pytest.approx(scale * noise * (math.log2(1e6 / S) + 1))
    assert local["privacy"] == pytest.approx(scale * noise * (4e3 + 3 * math.sqrt(S)))
    assert shuffle["privacy"] > central["privacy"]


def test_communication_counts_the_cohorts_of_table_2() -> None:
    short = PAPER.changed(horizon=50_000, alpha=0.5)
    assert dpe_communication(short) == pytest.approx(S * 437)
    bits = dpe_communication(short.changed(trust="shuffle"))
    assert bits > 20 * dpe_communication(short)


def test_alpha_outside_the_theorem_is_refused() -> None:
    with pytest.raises(InvalidValue, match="alpha: got 1"):
        dpe_regret(PAPER.changed(alpha=1.0))
