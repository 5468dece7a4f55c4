"""The set of admitted reports, and the privacy cost of replacing a report.

Tails and δ are compared with sums over the whole distribution, which are independent of the proofs.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.stats import nbinom, skellam

from dpbandits.errors import InvalidValue
from dpbandits.privacy import (
    Mechanism,
    Message,
    PrivacyRequest,
    SimulatedNoise,
    calibrate,
    calibrate_per_action,
)
from dpbandits.privacy._noisy_lattice import chance_replaced, encoded_distance, least_largest
from dpbandits.privacy.accounting import Approximated
from dpbandits.privacy.noise import BoxNormLaw, GaussianLaw, NoiseLaw
from dpbandits.privacy.noise._laplace_laws import LaplaceLaw, PolyaLaw
from dpbandits.privacy.noise._skellam_law import SkellamLaw
from dpbandits.privacy.trust import LocalLattice, SummedShares
from dpbandits.privacy.trust._local import RARELY
from tests.privacy.noises import NOISES

COHORT, COORDINATES, BOUND = 30, 5, 1.5
PURE = ("k-norm", "ball-norm", "polya")
CASES = [(trust, noise, "box") for trust, noises in NOISES.items() for noise in noises or (None,)]
CASES += [(trust, "discrete-gaussian", "ball") for trust in ("central", "local", "shuffle")]
CASES.append(("central", "ball-norm", "ball"))


def made(trust: str, noise: str | None, shape: str = "box", **changes: Any) -> Any:
    delta = 0.0 if noise in PURE else 1e-3
    request = PrivacyRequest(**{"trust": trust, "noise": noise, "epsilon": 3.0, "delta": delta, **changes})
    return calibrate(request, coordinates=COORDINATES, cohort=COHORT, bound=BOUND, shape=shape)


@pytest.fixture(params=CASES, ids=lambda case: "-".join(map(str, case)), name="mechanism")
def _mechanism(request: pytest.FixtureRequest) -> Mechanism:
    found: Mechanism = made(*request.param)
    return found


def simulated(seed: int = 0) -> SimulatedNoise:
    return SimulatedNoise(np.random.default_rng(seed))


# Tails


def _one_coordinate(law: NoiseLaw, reach: int) -> Any:
    """P(z) for |z| ≤ reach, computed from the definition."""
    places = np.arange(-reach, reach + 1)
    if isinstance(law, SkellamLaw):
        return skellam.pmf(places, law.mean, law.mean)
    if isinstance(law, PolyaLaw):
        part = nbinom.pmf(np.arange(reach + 1), 1 / law.shares, -math.expm1(-1 / law.scale))
        return np.convolve(part, part[::-1])
    power = 2 if isinstance(law, GaussianLaw) else 1
    weights = np.exp(-((np.abs(places) / law.scale) ** power) / power)
    return weights / weights.sum()


LAWS = [
    (GaussianLaw(scale=0.6), 40),
    (GaussianLaw(scale=7.3), 200),
    (SkellamLaw(scale=0.4), 60),
    (SkellamLaw(scale=6.0), 300),
    (LaplaceLaw(scale=3.0), 300),
    (PolyaLaw(scale=3.0, shares=20), 300),
]


@pytest.mark.parametrize(("law", "reach"), LAWS, ids=lambda x: repr(x)[:18])
def test_shares_exceed_a_limit_no_more_often_than_stated(law: NoiseLaw, reach: int) -> None:
    chances = _one_coordinate(law, reach)
    for limit in (1, 2, 5, 12, 30):
        true = 1 - (1 - chances[: reach - limit].sum() - chances[reach + limit + 1 :].sum()) ** 3
        stated = law.exceeded(3, limit)
        assert true <= stated * (1 + 1e-9)
        if not isinstance(law, PolyaLaw) and 1e-12 < stated < 0.1:  # the bound is not loose either
            assert stated <= 60 * true


def test_k_norm_noise_exceeds_a_limit_no_more_often_than_stated() -> None:
    law, reach = BoxNormLaw(scale=4.0), 200
    line = np.abs(np.arange(-reach, reach + 1))
    norms = np.maximum(line[:, None], line[None, :])
    weights = np.exp(-norms / law.scale)
    for limit in (5, 20, 60):
        true = weights[norms > limit].sum() / weights.sum()
        assert true <= law.exceeded(2, limit) <= 12 * true


@pytest.mark.parametrize("scale", [0.7, 4.0])
def test_vectors_of_noise_are_longer_no_more_often_than_stated(scale: float) -> None:
    law, reach = GaussianLaw(scale=scale), int(12 * scale)
    squares = np.arange(-reach, reach + 1) ** 2
    lengths = np.sqrt(squares[:, None, None] + squares[None, :, None] + squares[None, None, :])
    weights = np.exp(-(lengths**2) / (2 * scale**2))
    for limit in range(int(6 * scale)):
        true = weights[lengths > scale * math.sqrt(3) + limit].sum() / weights.sum()
        assert true <= law.longer(limit)
    assert weights[lengths > scale * math.sqrt(3)].sum() / weights.sum() > law.longer(int(3 * scale) + 1)


@pytest.mark.parametrize("shape", ["box", "ball"])
def test_the_least_limit_is_the_least(shape: str) -> None:
    law = GaussianLaw(scale=3.3)
    found = least_largest(law, 7, shape, 1e-9)
    assert chance_replaced(law, 7, shape, found) <= 1e-9 < chance_replaced(law, 7, shape, found - 1)


# What is sent, and what is admitted


def test_honest_reports_are_admitted_whatever_the_data_are(mechanism: Mechanism) -> None:
    rows = np.array([[-9.0] * COORDINATES, [9.0] * COORDINATES, [9.0, -9.0] * 2 + [0.0], [0.0] * COORDINATES])
    for seed in range(20):
        sent = mechanism.randomize(np.repeat(rows, 5, axis=0), simulated(seed))
        assert mechanism.message.admitted(sent).all()


class FarOut(SimulatedNoise):  # type: ignore[misc]
    """Noise from the far tail of one coordinate."""

    far = 10**9

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))

    def discrete_gaussian(self, scale: float, shape: tuple[int, ...]) -> Any:
        drawn = super().discrete_gaussian(scale, shape)
        drawn[0, 1] += self.far
        return drawn


@pytest.mark.parametrize("trust", ["local", "shuffle"])
@pytest.mark.parametrize("shape", ["box", "ball"])
def test_a_report_with_noise_from_a_far_tail_is_replaced_by_the_centre(trust: str, shape: str) -> None:
    mechanism = made(trust, "discrete-gaussian", shape)
    sent = mechanism.randomize(np.full((2, COORDINATES), 0.3), FarOut())
    assert sent[0].tolist() == [mechanism.levels // 2] * COORDINATES
    assert len(set(sent[1].tolist())) > 1
    assert mechanism.message.admitted(sent).all()


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
@pytest.mark.parametrize("shape", ["box", "ball"])
def test_what_lies_just_outside_is_refused(trust: str, shape: str) -> None:
    message = made(trust, "discrete-gaussian", shape).message
    centre = np.full(COORDINATES, message.twice_centre // 2, dtype=np.int64)
    for end, outwards in ((message.low, -1), (message.high, 1)):
        one = centre.copy()
        one[2] = end
        assert message.admitted(one[None])[0] or shape == "ball"
        one[2] += outwards
        assert not message.admitted(one[None])[0]
    corner = np.full(COORDINATES, message.high, dtype=np.int64)
    assert message.admitted(corner[None])[0] == (shape == "box")


@given(
    st.integers(1, 2**20),
    st.lists(st.integers(-(2**45), 2**45), min_size=1, max_size=6),
    st.integers(-2, 2),
)
def test_balls_are_compared_exactly(levels: int, entries: list[int], more: int) -> None:
    square = sum((2 * x - levels) ** 2 for x in entries)
    message = Message(
        kind="integers",
        shape=(len(entries),),
        low=-(2**60),
        high=2**60,
        twice_centre=levels,
        largest_square=square + more,
    )
    assert message.admitted(np.array(entries, dtype=np.int64)[None])[0] == (more >= 0)


def test_numbers_that_are_none_are_refused() -> None:
    message = made("none", None).message
    for value in (math.nan, math.inf, -math.inf, 1.5001):
        assert not message.admitted(np.array([0.0, value, 0, 0, 0])[None])[0]
    assert message.admitted(np.array([0.0, 1.5, -1.5, 0, 0])[None])[0]


# Reports as bytes

LAYOUTS = [
    (
        Message(kind="numbers", shape=(2,), low=-1.5, high=1.5),
        [-0.0, 1.5],
        "0000000000000080000000000000f83f",
    ),
    (Message(kind="integers", shape=(2,), low=-2, high=258), [-2, 258], "feffffffffffffff0201000000000000"),
    (Message(kind="bits", shape=(2, 3), low=0, high=1), [[1, 1, 0], [1, 0, 1]], "d4"),
    (Message(kind="bits", shape=(1, 8), low=0, high=1), [[1, 0, 0, 0, 0, 0, 0, 1]], "81"),
]


@pytest.mark.parametrize(("message", "entries", "packed"), LAYOUTS, ids=lambda one: str(one)[:30])
def test_the_layout_is_fixed_and_keeps_every_bit(message: Message, entries: Any, packed: str) -> None:
    kinds = {"numbers": np.float64, "integers": np.int64, "bits": np.uint8}
    array = np.array(entries, dtype=kinds[message.kind])
    assert message.pack(array).hex() == packed
    assert len(message.pack(array)) == message.size
    rows = message.unpack([bytes.fromhex(packed)] * 3)
    assert rows.shape == (3, *message.shape)
    assert rows.dtype == array.dtype
    assert [message.pack(row).hex() for row in rows] == [packed] * 3
    assert message.unpack([]).shape == (0, *message.shape)


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("numbers", struct.pack("<d", 1.6)),
        ("numbers", struct.pack("<d", math.nan)),
        ("numbers", struct.pack("<d", -math.inf)),
        ("integers", struct.pack("<q", 259)),
        ("integers", struct.pack("<q", -(2**63))),
        ("bits", b"\xd5"),
        ("bits", b"\xd6"),
    ],
)
def test_one_false_report_among_honest_ones_is_refused_without_its_content(kind: str, entry: bytes) -> None:
    message, _, packed = next(layout for layout in LAYOUTS if layout[0].kind == kind)
    honest = bytes.fromhex(packed)
    with pytest.raises(InvalidValue, match="payload: got (entries out of range|bits after)") as refused:
        message.unpack([honest, entry + honest[len(entry) :], honest])
    assert not {"259", "1.6", "nan", "inf", "d5"} & {*re.findall(r"[\w.]+", str(refused.value))}


@settings(max_examples=60)
@given(data=st.data())
def test_a_single_report_is_checked_like_a_batch(data: st.DataObject) -> None:
    """Short reports are checked without NumPy, long ones with it; entries are at all edges of the limits."""
    length = data.draw(st.integers(1, 4) | st.sampled_from([64, 65]))
    low, high = data.draw(st.integers(-40, 0)), data.draw(st.integers(1, 40))
    square = data.draw(st.none() | st.integers(0, 4000))
    message = Message(
        kind="integers", shape=(length,), low=low, high=high, twice_centre=high, largest_square=square
    )
    entry = st.sampled_from([low, high, low - 1, high + 1, 2**63 - 1, -(2**63)]) | st.integers(low, high)
    entries = [data.draw(entry) for _ in range(min(length, 4))] + [high // 2] * (length - 4)
    packed = np.array(entries, dtype="<i8").tobytes() + b"x" * data.draw(st.sampled_from([0, 0, 0, 1]))
    try:
        message.unpack([packed])
    except InvalidValue:
        assert not message.accepts(packed)
    else:
        assert message.accepts(packed)


def test_reports_of_wrong_lengths_are_refused_even_if_together_they_fit() -> None:
    for message, _, packed in LAYOUTS:
        honest = bytes.fromhex(packed)
        for lengths in ([honest[:-1]], [honest + b"\0"], [b""], [honest + b"\0", honest[:-1]]):
            with pytest.raises(InvalidValue, match=f"another length, expected {message.size} bytes"):
                message.unpack(lengths)


def test_infinity_is_refused_where_there_are_no_limits() -> None:
    message = Message(kind="numbers", shape=(1,), low=-math.inf, high=math.inf)
    assert message.unpack([struct.pack("<d", -1e308)]).tolist() == [[-1e308]]
    with pytest.raises(InvalidValue, match="entries out of range"):
        message.unpack([struct.pack("<d", math.inf)])


def test_an_array_of_another_kind_or_shape_is_not_packed() -> None:
    message = LAYOUTS[1][0]
    for array in (np.zeros(3, dtype=np.int64), np.zeros(2), np.zeros((1, 2), dtype=np.int64)):
        with pytest.raises(InvalidValue, match="expected integers of shape"):
            message.pack(array)


# What replacing costs


def _sent(mechanism: SummedShares, place: int) -> dict[int, float]:
    """The distribution of a report of a client encoded to `place`, including replacement."""
    assert mechanism.largest_share is not None
    reach = int(30 * mechanism.scale) + 10
    chances, law = _one_coordinate(mechanism.law, reach), dict[int, float]()
    for z, chance in zip(range(-reach, reach + 1), chances, strict=True):
        inside = -mechanism.largest_share <= place + z <= mechanism.levels + mechanism.largest_share
        report = place + z if inside else mechanism.levels // 2
        law[report] = law.get(report, 0.0) + float(chance)
    return law


def _true_delta(mechanism: SummedShares, epsilon: float) -> float:
    """δ of the sum of two reports: one client at either end of the grid, the other anywhere."""
    worst = 0.0
    for other in (0, mechanism.levels // 2, mechanism.levels):
        worlds = list[dict[int, float]]()
        for place in (0, mechanism.levels):
            total = dict[int, float]()
            for one, p in _sent(mechanism, place).items():
                for two, q in _sent(mechanism, other).items():
                    total[one + two] = total.get(one + two, 0.0) + p * q
            worlds.append(total)
        for low, high in (worlds, worlds[::-1]):
            excess = sum(max(0.0, p - math.exp(epsilon) * high.get(x, 0.0)) for x, p in low.items())
            worst = max(worst, excess)
    return worst


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam"])
@pytest.mark.parametrize("largest", [2, 5, 9, 14, 30])
def test_the_account_covers_replaced_reports(noise: str, largest: int) -> None:
    mechanism = SummedShares(
        coordinates=1,
        cohort=2,
        bound=1.0,
        levels=4,
        noise=noise,
        scale=3.0,
        least_reports=2,
        largest_share=largest,
    )
    event = mechanism.event
    assert isinstance(event, Approximated)
    for epsilon in (0.3, 1.0, 2.0, 3.0):
        true = _true_delta(mechanism, epsilon)
        assert true <= event.delta(epsilon) * (1 + 1e-9)
        if (largest, epsilon) == (9, 3.0):  # the account of the noise alone would be false
            assert true > 1.3 * event.event.delta(epsilon)


@pytest.mark.parametrize("noise", ["discrete-gaussian", "skellam"])
def test_a_plan_with_a_small_limit_shows_in_its_delta(noise: str) -> None:
    mechanism = made("shuffle", noise)
    assert mechanism.event.delta(3.0) <= 1e-3
    half = replace(mechanism, largest_share=mechanism.largest_share // 2)
    assert half.event.delta(3.0) > 10 * 1e-3
    assert replace(mechanism, largest_share=1).event.delta(3.0) == 1.0


@pytest.mark.parametrize(("noise", "shape"), [("discrete-gaussian", "box"), ("discrete-gaussian", "ball"),
                                              ("skellam", "box")])  # fmt: skip
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-8), (1, 1e-6), (8, 0.01)])
def test_calibration_leaves_a_hundredth_of_delta_for_replaced_reports(
    noise: str, shape: str, epsilon: float, delta: float
) -> None:
    mechanism = made("shuffle", noise, shape, epsilon=epsilon, delta=delta)
    assert mechanism.event.delta(epsilon) <= delta
    allowed = 0.01 * delta / (1 + math.exp(epsilon))
    assert mechanism.distance <= allowed
    # Cohorts up to a power of two share a limit, which costs at most a factor of two.
    assert replace(mechanism, largest_share=mechanism.largest_share - 1).distance > allowed / 2 * 0.99


def test_scalar_mechanisms_have_the_same_limits() -> None:
    for noise in ("discrete-gaussian", "skellam", "polya"):
        request = PrivacyRequest(trust="shuffle", noise=noise, epsilon=1, delta=1e-5)
        for own in calibrate_per_action(request, cohorts=[7, 40, 300], bounds=[1.0, 0.2, 3.0]):
            assert isinstance(own, SummedShares)
            assert own.largest_share is not None
            assert own.event.delta(1) <= 1e-5
    request = PrivacyRequest(trust="local", epsilon=1, delta=1e-5, noise="laplace")
    for own in calibrate_per_action(request, cohorts=[7, 40], bounds=[1.0, 0.2]):
        assert isinstance(own, LocalLattice)
        assert own.message.high < 40 * own.levels
        assert chance_replaced(own.law, 1, "box", int(-own.message.low)) <= RARELY


def test_polya_shares_have_no_limit_if_delta_is_zero() -> None:
    mechanism = made("shuffle", "polya")
    assert mechanism.largest_share is None
    assert mechanism.event.pure_epsilon <= 3
    limited = replace(mechanism, largest_share=30 * mechanism.levels)
    assert 0 < limited.event.delta(3) == (1 + math.exp(3)) * limited.distance
    assert replace(limited, largest_share=20 * mechanism.levels).event.delta(3) > limited.event.delta(3)
    with pytest.raises(InvalidValue, match="largest_share"):
        replace(made("shuffle", "skellam"), largest_share=None)


def test_a_limit_on_polya_shares_would_break_pure_privacy() -> None:
    """At the least sum every report is at its limit, and the ratio is that of one share: always above e^ε."""
    law, reach, levels = PolyaLaw(scale=3.0, shares=20), 200, 4
    chances = _one_coordinate(law, reach)
    for limit in range(1, 60):
        ratio = chances[reach + limit] / chances[reach + limit + levels]
        assert ratio > math.exp(levels / law.scale) * (1 + 1e-3)


# A ball


@settings(max_examples=150, deadline=None)
@given(
    st.floats(2.0**-60, 2.0**60),
    st.sampled_from([1, 2, 7, 64, 1000, 2**20]),
    st.integers(1, 8),
    st.integers(0, 2**32),
    st.floats(-30, 30),
)
def test_encoded_clients_lie_within_the_stated_distance(
    bound: float, levels: int, coordinates: int, seed: int, magnitude: float
) -> None:
    mechanism = LocalLattice(
        coordinates=coordinates,
        cohort=1,
        bound=bound,
        levels=levels,
        noise="discrete-gaussian",
        scale=9.0,
        shape="ball",
    )
    rng = np.random.default_rng(seed)
    one = rng.normal(size=(40, coordinates)) * bound * 10.0**magnitude
    clients = np.concatenate([one, -one, 1e250 * one[:3], np.full((1, coordinates), np.inf)])
    encoded = mechanism.lattice.encode(mechanism.clip(clients), simulated(seed))
    assert encoded.min() >= 0
    assert encoded.max() <= levels
    distances = np.linalg.norm(encoded[:, None] - encoded[None, :], axis=2)
    assert distances.max() <= encoded_distance(levels, coordinates)


@pytest.mark.parametrize("bound", [2.0**-60, 1e-3, 2.0**60])
def test_a_ball_keeps_directions_at_every_size(bound: float) -> None:
    mechanism = LocalLattice(
        coordinates=2, cohort=1, bound=bound, levels=64, noise="discrete-gaussian", scale=9.0, shape="ball"
    )
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [1e-290, 0.0]]) * bound
    expected = np.array([[0.6, 0.8], [0.3, 0.4], [1e-290, 0.0]])
    np.testing.assert_allclose(mechanism.clip(rows) / bound, expected, rtol=1e-14)
    assert mechanism.entries_cut(rows) == 2
