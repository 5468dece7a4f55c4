"""Columns of a kernel: what they leave out, equal bits on every processor, and the ways to ask for them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpbandits import Category, Kernel, Number, Options, Ordered
from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.options._kernel import exp_minus

TABLE = {
    "name": [f"option {place}" for place in range(24)],
    "price": [3 + (7 * place) % 24 for place in range(24)],
    "size": [["S", "M", "L"][place % 3] for place in range(24)],
    "net": [["red", "blue"][(place // 5) % 2] for place in range(24)],
}
KINDS = {"price": Number(), "size": Ordered(["S", "M", "L"]), "net": Category()}
SHAPES = {
    "rbf": lambda r: np.exp(-(r**2) / 2),
    "matern": lambda r: (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r),
}


def _gram(shape: str, length_scale: float) -> FloatArray:
    """Return κ between all options of the table, independently of the encoding."""
    price = (np.array(TABLE["price"]) - 14.5) / 11.5
    size = np.array(["SML".index(one) - 1 for one in TABLE["size"]])
    net = math.sqrt(2) * np.array([[one == "red", one == "blue"] for one in TABLE["net"]])
    points = np.column_stack([price, size, net])
    return SHAPES[shape](np.linalg.norm(points[:, None] - points[None, :], axis=2) / length_scale)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_smooth_function_deviates_by_what_is_left_out_and_not_by_more(shape: str) -> None:
    options = Options.from_table(TABLE, features=KINDS, kernel=Kernel(shape=shape, length_scale=1.5, rank=9))
    matrix, gram = options.actions.matrix, _gram(shape, 1.5)
    kernel = options.encoding.kernel
    assert isinstance(kernel, Kernel)
    rows = list(zip(TABLE["price"], TABLE["size"], TABLE["net"], strict=True))
    marks = [rows.index(landmark) for landmark in kernel.landmarks]  # type: ignore[arg-type]
    assert len(marks) == matrix.shape[1] == 9
    assert np.linalg.norm(matrix, axis=1).max() == pytest.approx(1)

    def deviation(weights: FloatArray) -> float:
        """Return the largest deviation of Σ w_i·κ(·, x_i) from the columns, relative to its norm."""
        values = gram @ weights
        theta = np.linalg.solve(matrix[marks], values[marks])
        return float(np.abs(values - matrix @ theta).max() / math.sqrt(weights @ gram @ weights))

    drawn = np.random.default_rng(1).standard_normal((200, 24))
    assert max(deviation(weights) for weights in drawn) <= options.left_out
    # The function that is orthogonal to the columns and largest where most is left out has no smaller bound.
    origin, others = marks[0], marks[1:]
    increments = gram - gram[:, [origin]] - gram[[origin], :] + 1
    shares = np.linalg.solve(increments[np.ix_(others, others)], increments[others])
    worst = int(np.argmax(np.diag(increments) - np.einsum("ji,ji->i", increments[others], shares)))
    weights, share = np.zeros(24), shares[:, worst]
    weights[worst] += 1
    weights[others] -= share
    weights[origin] += share.sum() - 1
    assert deviation(weights) == pytest.approx(options.left_out, rel=1e-4)
    assert 0.3 < options.left_out < 0.6


def test_a_constant_is_never_left_out() -> None:
    matrix = Options.from_table(TABLE, features=KINDS, kernel=Kernel(rank=3)).actions.matrix
    theta = np.linalg.lstsq(matrix, np.ones(24), rcond=None)[0]
    np.testing.assert_allclose(matrix @ theta, 1, rtol=1e-12)


def test_the_columns_have_the_same_bits_on_every_processor() -> None:
    # The same with and without AVX-512 and AVX2, where NumPy's `exp` has different bits.
    digests = {"rbf": "60dbccf6056b75e6", "matern": "3bdc7aa13b67c797"}
    for shape, digest in digests.items():
        kernel = Kernel(shape=shape, length_scale=1.0, rank=12)
        options = Options.from_table(TABLE, features=KINDS, kernel=kernel)
        assert options.actions.digest[:16] == digest


def test_the_exponential_is_exact_up_to_rounding() -> None:
    points = np.concatenate([np.linspace(0, 3, 301), np.linspace(0, 700, 701), [744.0, 800.0, 1e300]])
    exact = np.array([math.exp(-point) for point in points])
    np.testing.assert_allclose(exp_minus(points), exact, rtol=1e-13, atol=1e-300)


def test_by_default_as_many_columns_as_needed() -> None:
    options = Options.from_table(TABLE, features=KINDS, kernel=Kernel(length_scale=4.0))
    columns = len(options.encoding.columns)
    fewer = Options.from_table(TABLE, features=KINDS, kernel=Kernel(length_scale=4.0, rank=columns - 1))
    assert options.left_out <= 0.05 < fewer.left_out
    rough = Options.from_table(TABLE, features=KINDS, kernel=Kernel(length_scale=0.01))
    assert len(rough.encoding.columns) == 24
    assert Options.from_table(TABLE, features=KINDS).left_out == 0


def test_the_options_survive_json_and_their_encoding_serves_another_table() -> None:
    options = Options.from_table(TABLE, features=KINDS, kernel=Kernel(rank=6), current="option 3")
    again = Options.from_json(options.to_json())
    assert again == options
    assert again.actions == options.actions
    assert again.left_out == options.left_out
    some = {name: values[5:9] for name, values in TABLE.items()}
    other = Options.from_table(some, features=options.encoding)
    np.testing.assert_array_equal(other.actions.matrix, options.actions.matrix[5:9])
    assert "kernel" not in Options.from_table(TABLE, features=KINDS).to_json()  # digests stay as they were
    assert options.effects(np.ones(6)) == ()
    assert "net: category; the distance of two levels is 2, as that of −1 and 1\nkernel: rbf" in str(options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kernel": "rbf"}, r"kernel: got 'rbf', expected Kernel\(...\) or None"),
        ({"kernel": Kernel(rank=25)}, "rank: got 25, expected at most 24, the number of options"),
        ({"kernel": Kernel(), "interactions": "all"}, "interactions: got .*, expected none with a kernel"),
        ({"kernel": Kernel(), "features": {"price": Number(squared=True)}}, "price: got squared"),
        (
            {"kernel": Kernel(), "features": {"size": Ordered(["S", "M", "L"], steps=True), "price": None}},
            "size: got with a column per step",
        ),
        ({"kernel": Kernel(rank=2), "features": ["net", "size"]}, "got the same features as .* larger rank"),
        (
            {"kernel": Kernel(landmarks=((3,), (4,)))},
            r"landmarks: got \(3,\), expected one value for each of 'price', 'size', 'net'",
        ),
        (
            {"kernel": Kernel(landmarks=((3,), (3,))), "features": ["price"]},
            "landmark 2: got nearly a combination of other landmarks",
        ),
        (
            {"kernel": Kernel(), "features": Options.from_table(TABLE, features=KINDS).encoding},
            "kernel: got .*, expected none with an encoding",
        ),
    ],
)
def test_what_does_not_go_with_a_kernel_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Options.from_table(TABLE, **{"features": KINDS, **given})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": "cubic"}, "kernel: got 'cubic', expected one of"),
        ({"length_scale": 0.0}, "length_scale: got 0.0"),
        ({"length_scale": "1"}, "length_scale: got 1, expected a number"),
        ({"rank": 1001}, "rank: got 1001, expected at most 1,000"),
        ({"rank": 1}, "rank: got 1"),
        ({"rank": 3, "landmarks": ((1,), (2,))}, "rank: got 3, expected 2, the number of landmarks"),
        ({"landmarks": ((1,),)}, "landmarks: got 1 landmark"),
    ],
)
def test_a_kernel_checks_its_attributes(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Kernel(**given)
