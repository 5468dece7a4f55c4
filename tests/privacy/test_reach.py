"""How far one lying client can move a released mean, and the assumptions of a guarantee."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate, calibrate_per_action, guarantee

from .test_reports import BOUND, CASES, COHORT, COORDINATES, made, simulated


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)), name="mechanism")
def _mechanism(request: pytest.FixtureRequest) -> Mechanism:
    found: Mechanism = made(*request.param)
    return found


def _extremes(mechanism: Mechanism) -> list[Any]:
    """The farthest admitted reports."""
    message = mechanism.message
    if message.kind == "bits":
        return [np.zeros(message.shape, np.uint8), np.ones(message.shape, np.uint8)]
    dtype = np.int64 if message.kind == "integers" else np.float64
    low, high = np.full(message.shape, message.low, dtype), np.full(message.shape, message.high, dtype)
    centre = np.full(message.shape, message.twice_centre // 2, dtype)
    found = [low, high, np.where(np.arange(COORDINATES) % 2, low, high), centre]
    for end in (message.low, message.high):
        one, scaled = centre.copy(), (end - centre) / math.sqrt(COORDINATES) * 0.99
        one[0] = end
        found += [one, centre + np.trunc(scaled).astype(dtype)]
    return [one for one in found if one.shape == message.shape and message.admitted(one[None])[0]]


def test_no_admitted_report_moves_a_mean_by_more_than_the_stated_reach(mechanism: Mechanism) -> None:
    sent = mechanism.randomize(np.random.default_rng(1).normal(size=(COHORT, COORDINATES)), simulated(2))
    reach = mechanism.reach_of_one(COHORT)
    means = list[Any]()
    for report in _extremes(mechanism):
        sent[0] = report
        means.append(mechanism.analyze(mechanism.shuffle(sent, simulated(3)), COHORT, simulated(4)))
    moved = [a - b for a in means for b in means]
    assert len(means) > 1
    assert max(float(np.abs(one).max()) for one in moved) <= reach.mean * (1 + 1e-9) + 1e-9
    if reach.length is not None:
        assert max(float(np.linalg.norm(one)) for one in moved) <= reach.length * (1 + 1e-9)
    # Some report attains the bound, except where the extremes are not at the ends of the range.
    if mechanism.shape == "box" and mechanism.noise_name not in ("polya", "list"):
        assert max(float(np.abs(one).max()) for one in moved) >= reach.mean * (1 - 1e-9)
    assert reach.honest == pytest.approx(2 * BOUND / COHORT)
    if mechanism.additive:  # only sums can be split into shares, which nobody can check
        assert mechanism.reach_of_one(COHORT, checked=False).mean == math.inf
    assert mechanism.trust not in ("none", "central") or reach.factor == pytest.approx(1)


@pytest.mark.parametrize(("noise", "shape"), [("discrete-gaussian", "box"), ("discrete-gaussian", "ball"),
                                              ("skellam", "box")])  # fmt: skip
def test_no_number_of_liars_makes_a_sum_wrap_around(noise: str, shape: str) -> None:
    mechanism = made("shuffle", noise, shape)
    for report in _extremes(mechanism):
        sent = np.tile(report, (COHORT, 1))
        found = mechanism.analyze(mechanism.shuffle(sent, simulated()), COHORT, simulated())
        np.testing.assert_allclose(found, report * mechanism.lattice.step - BOUND, rtol=1e-9, atol=1e-9)


def test_a_liar_in_a_large_cohort_no_longer_decides_the_mean() -> None:
    """One client of 2,000 could send any residue, and move a mean anywhere."""
    request = PrivacyRequest(trust="shuffle", noise="discrete-gaussian", epsilon=1, delta=1e-6)
    for shape in ("box", "ball"):
        mechanism = calibrate(request, coordinates=20, cohort=2000, bound=1, shape=shape)
        assert mechanism.reach_of_one(2000).mean < 0.02
    local = calibrate(replace(request, trust="local"), coordinates=20, cohort=2000, bound=1, shape="ball")
    assert local.reach_of_one(2000).mean < 0.08


def test_what_is_needed_names_parties_and_honest_clients() -> None:
    wary = made("shuffle", None, minimum_share=0.8, silent_share=0.25)
    assert "does not collude with the server" in wary.needs
    assert "at least 18 of 24 reporting clients are real, add their noise" in wary.needs
    assert "split among two parties that do not collude" in made("shuffle", "skellam").needs
    assert "server is trusted" in made("central", None).needs
    assert "all other clients may collude" in made("local", None).needs


def test_cohorts_of_many_sizes_need_one_sentence() -> None:
    request = PrivacyRequest(trust="shuffle", epsilon=1, delta=1e-5)
    mechanisms = calibrate_per_action(request, cohorts=range(20, 60), bounds=[1.0] * 40)
    stated = guarantee(request, mechanisms)
    assert stated is not None
    assert "20 of 20 in the smallest" in stated.needs
    assert "56 of 56 in the largest" in stated.needs
    assert len(stated.needs) < 500
