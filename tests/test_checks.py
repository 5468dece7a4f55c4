"""Validators of arguments name the field, the value and what is accepted."""

from __future__ import annotations

import numpy as np
import pytest

from dpbandits._checks import (
    between,
    finite_matrix,
    non_negative,
    one_of,
    positive,
    probability,
    whole,
)
from dpbandits.errors import InvalidValue


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", None, True])
def test_positive_names_field_value_and_accepted_range(value: object) -> None:
    with pytest.raises(InvalidValue) as caught:
        positive(epsilon=value)  # type: ignore[arg-type]
    assert str(caught.value) == f"epsilon: got {value}, expected a finite number > 0"


@pytest.mark.parametrize("value", [0, 1, 1.5, -0.1, float("nan")])
def test_probability_is_strict(value: float) -> None:
    with pytest.raises(InvalidValue, match="delta: got .* strictly between 0 and 1"):
        probability(delta=value)


@pytest.mark.parametrize("value", [0, 2.0, "3", True, 11])
def test_whole_rejects_what_is_not_whole_or_out_of_range(value: object) -> None:
    with pytest.raises(InvalidValue, match=">= 1 and <= 10"):
        whole(1, 10, horizon=value)  # type: ignore[arg-type]


def test_accepted_values_come_back() -> None:
    assert positive(x=2) == 2.0
    assert non_negative(x=0) == 0.0
    assert probability(x=0.5) == 0.5
    assert between(1, 2, x=2) == 2
    assert whole(0, x=np.int64(3)) == 3
    assert one_of(("a", "b"), x="a") == "a"


def test_one_of_lists_the_choices() -> None:
    with pytest.raises(InvalidValue, match="trust: got 'x', expected one of none, central"):
        one_of(("none", "central"), trust="x")
    with pytest.raises(InvalidValue, match=r"trust: got \['none'\], expected one of none"):
        one_of({"none": 1}, trust=["none"])  # type: ignore[arg-type]


def test_finite_matrix_names_the_entry() -> None:
    matrix = np.zeros((3, 2))
    matrix[2, 1] = np.nan
    with pytest.raises(InvalidValue, match=r"actions\[2, 1\]: got nan"):
        finite_matrix(actions=matrix)


@pytest.mark.parametrize("matrix", [np.zeros(3), np.zeros((0, 2)), np.zeros((2, 0)), [["a", "b"]]])
def test_finite_matrix_rejects_other_shapes(matrix: object) -> None:
    with pytest.raises(InvalidValue):
        finite_matrix(actions=matrix)  # type: ignore[arg-type]
