"""Each wrong table gives one line that names the column, the row and the value, and says what is accepted."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits import Category, Number, Options, Ordered
from dpbandits.errors import InvalidValue

GOOD: dict[str, list[Any]] = {
    "name": ["a", "b", "c", "d", "e", "f", "g", "h"],
    "price": [1, 2, 3, 4, 5, 6, 7, 9],
    "colour": ["red", "blue", "green", "red", "blue", "green", "red", "blue"],
}


def _with(**changed: Any) -> dict[str, Any]:
    return {**GOOD, **changed}


WRONG: dict[str, tuple[Any, dict[str, Any], str]] = {
    "missing label column": (
        GOOD,
        {"label": "title"},
        "label: got 'title', expected a column of the table: 'name'",
    ),
    "missing label": (
        _with(name=["a", None, *"cdefgh"]),
        {},
        "name, row 2: got a missing value, expected the name of an option",
    ),
    "duplicate label": (
        _with(name=list("abcdefga")),
        {},
        "label, row 8: got 'a' again, as in row 1, expected distinct names",
    ),
    "unknown current": (GOOD, {"current": "z"}, "current: got 'z', expected one of 'a', 'b'"),
    "unknown feature": (
        GOOD,
        {"features": ["price", "weight"]},
        "features: got 'weight', expected a column of the table",
    ),
    "feature twice": (
        GOOD,
        {"features": ["price", "price"]},
        "features: got 'price' twice, expected each column once",
    ),
    "no features": (GOOD, {"features": []}, "features: got none, expected at least one column"),
    "features as text": (GOOD, {"features": "price"}, "features: got 'price', expected a list of columns"),
    "missing number": (
        _with(price=[1, 2, None, 4, 5, 6, 7, 9]),
        {},
        "price, row 3 (c): got a missing value, expected a number or a category",
    ),
    "NaN": (
        _with(price=[1, 2, 3, float("nan"), 5, 6, 7, 9]),
        {"features": {"price": Number()}},
        "price, row 4 (d): got a missing value, expected a finite number",
    ),
    "text among numbers": (
        _with(price=[1, 2, 3, 4, "cheap", 6, 7, 9]),
        {},
        "price, row 5 (e): got 'cheap', expected a finite number",
    ),
    "infinite": (
        _with(price=[1, 2, 3, 4, 5, 6, 7, np.inf]),
        {},
        "price, row 8 (h): got inf, expected a finite number",
    ),
    "logarithm of zero": (
        _with(price=[1, 2, 0, 4, 5, 6, 7, 9]),
        {"features": {"price": Number(log=True)}},
        "price, row 3 (c): got 0, expected a finite number > 0, since its logarithm is used",
    ),
    "constant number": (
        _with(price=[3] * 8),
        {},
        "price: got 3 in every row, expected a column with two values or more",
    ),
    "constant category": (_with(colour=["red"] * 8), {}, "colour: got 'red' in every row"),
    "copied column": (
        _with(cents=[100, 200, 300, 400, 500, 600, 700, 900]),
        {},
        "cents: got a copy of price up to scale, expected a column that the others do not determine",
    ),
    "collinear columns": (
        _with(tax=[2, 1, 5, 2, 7, 1, 3, 3], total=[3, 3, 8, 6, 12, 7, 10, 12]),
        {"features": ["price", "tax", "total"]},
        "total: got a sum of multiples of 'price', 'tax', expected a column that the others do not determine",
    ),
    "unknown level": (
        GOOD,
        {"features": {"colour": Ordered(["red", "green"])}},
        "colour, row 2 (b): got 'blue', expected one of 'red', 'green'",
    ),
    "unknown category": (
        GOOD,
        {"features": {"colour": Category(levels=("red", "blue"))}},
        "colour, row 3 (c): got 'green', expected one of 'red', 'blue'",
    ),
    "unused category": (
        GOOD,
        {"features": {"colour": Category(levels=("red", "blue", "green", "pink"))}},
        "colour, level 'pink': got no row, expected a row with this level",
    ),
    "unknown baseline": (
        GOOD,
        {"features": {"colour": Category(baseline="pink")}},
        "colour, baseline: got 'pink', expected one of 'red', 'blue', 'green'",
    ),
    "square of two values": (
        _with(price=[1, 2] * 4),
        {"features": {"price": Number(squared=True)}},
        "price: got the two values 1, 2, expected three values or more for squared=True",
    ),
    "narrow range": (
        _with(price=[1, 1 + 1e-14] * 4),
        {},
        "price: got 1.0 … 1.00000000000001, expected a range wider",
    ),
    "wrong kind": (
        GOOD,
        {"features": {"price": "number"}},
        "features['price']: got 'number', expected Number(...), Ordered([...]), Category(...) or None",
    ),
    "wrong interaction": (
        GOOD,
        {"interactions": [("price", "weight")]},
        "interactions: got ('price', 'weight'), expected \"all\", or a list of pairs of 'price', 'colour'",
    ),
    "interaction with itself": (
        GOOD,
        {"interactions": [("price", "price")]},
        "interactions: got ('price', 'price')",
    ),
    "interaction twice": (
        GOOD,
        {"interactions": [("price", "colour"), ("colour", "price")]},
        "interactions: got ('colour', 'price') twice, expected each pair once",
    ),
    "same features": (
        {"name": list("abcd"), "price": [1, 2, 3, 1]},
        {},
        "row 4 (d): got the same features as row 1 (a), expected options that differ in a feature",
    ),
    "more columns than options": (
        {"name": list("abc"), "price": [1, 2, 3], "colour": ["red", "blue", "green"]},
        {},
        "features: got 4 columns ('intercept', 'price', 'colour=blue', 'colour=green'), expected at most 3",
    ),
    "one option": ({"name": ["a"], "price": [1]}, {}, "table: got 1 option, expected at least two options"),
    "no rows": ({"name": [], "price": []}, {}, "table: got no rows, expected at least one row"),
    "other length": (
        _with(price=[1, 2]),
        {},
        "table, column price: got 2 values, expected 8, as in column name",
    ),
    "column that is no list": (_with(price=3), {}, "table, column price: got 3, expected a list of values"),
    "row without a column": (
        [{"name": "a", "price": 1}, {"name": "b"}],
        {},
        "table, row 2, column price: got no value, expected the columns of row 1: 'name', 'price'",
    ),
    "row that is no mapping": ([{"name": "a"}, 7], {}, "table, row 2: got 7, expected a mapping"),
    "no table": (
        7,
        {},
        "table: got int, expected a data frame, a .csv file, a mapping of columns or a list of dicts",
    ),
    "no file": ("nowhere.csv", {}, "table: got nowhere.csv, expected an existing file that ends in .csv"),
    "names that collide": (
        {**GOOD, "colour=blue": [3, 1, 4, 1, 5, 9, 2, 6]},
        {},
        "features: got two columns 'colour=blue', expected names that differ when encoded",
    ),
    "interactions twice": (
        GOOD,
        {"features": Options.from_table(GOOD).encoding, "interactions": "all"},
        "interactions: got 'all', expected none with an encoding, which has its own",
    ),
    "date": (
        _with(price=[np.datetime64("2020-01-01")] * 8),
        {},
        "price, row 1 (a): got datetime.date(2020, 1, 1), expected a number, text or a boolean",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_explained_in_one_line(case: str) -> None:
    table, chosen, message = WRONG[case]
    with pytest.raises(InvalidValue) as caught:
        Options.from_table(table, **chosen)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_the_good_table_is_accepted() -> None:
    assert len(Options.from_table(GOOD)) == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,price\na,1\nb\n", "table, row 2: got 1 cells, expected 2, as the header"),
        ("name,name\na,1\n", "table: got two columns named 'name', expected distinct column names"),
        ("", "a header line and at least one row"),
        ("name,price\n", "table: got no rows, expected at least one row"),
        ("name,price\na,1\nb,\n", "price, row 2 (b): got a missing value"),
    ],
)
def test_a_wrong_file_is_explained(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue) as caught:
        Options.from_table(path)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Ordered(["S"]), "Ordered.levels: got 1 levels, expected at least two"),
        (lambda: Ordered(["S", "S"]), "Ordered.levels: got 'S' twice, expected distinct levels"),
        (lambda: Ordered("SML"), "Ordered.levels: got 'SML', expected a list of levels"),
        (lambda: Ordered(["S", None]), "Ordered.levels: got None, expected levels that are text"),  # type: ignore[list-item]
        (lambda: Number(log="yes"), "Number.log: got 'yes', expected True or False"),  # type: ignore[arg-type]
        (
            lambda: Category(baseline="x", levels=("a", "b")),
            "Category.baseline: got 'x', expected one of 'a', 'b'",
        ),
        (lambda: Options.grid(), "grid: got no factors, expected values of at least one factor"),
        (lambda: Options.grid(tilt=[2]), "grid, tilt: got [2], expected a list of at least two values"),
        (lambda: Options.grid(tilt="ab"), "grid, tilt: got 'ab', expected a list of at least two values"),
        (
            lambda: Options.grid(tilt=[2, 4], current={"tilt": 3}),
            "current: got 'tilt=3', expected one of 'tilt=2'",
        ),
        (
            lambda: Options.grid(tilt=[2, 4], features={"power": Number()}),
            "features: got 'power', expected a column of the table: 'tilt'",
        ),
        (lambda: Options.from_json("{}"), "options: got unreadable JSON, expected what to_json wrote"),
        (lambda: Options.from_table(GOOD).index("z"), "label: got 'z', expected one of 'a', 'b'"),
        (lambda: Options.from_table(GOOD).effects([1, 2]), "theta: got shape (2,), expected 4 numbers"),
        (
            lambda: Options.from_table(GOOD).effects([0] * 4, np.eye(3)),
            "covariance: got shape (3, 3), expected (4, 4)",
        ),
    ],
)
def test_a_wrong_value_is_explained(make: Any, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_changed_json_is_checked() -> None:
    data = Options.from_table(GOOD, current="a").to_json()
    for old, new in (('"current":"a"', '"current":"z"'), ('"half":4.0', '"half":0.0'), ('"red"', '"pink"')):
        assert old in data
        with pytest.raises(InvalidValue):
            Options.from_json(data.replace(old, new, 1))


_ODD = st.sampled_from(
    [
        None,
        1,
        -3,
        0,
        2.5,
        10**20,
        Fraction(1, 3),
        Decimal("0.1"),
        float("nan"),
        float("inf"),
        10**400,
        True,
        "",
        "a",
        "b",
        [1],
        {},
        b"x",
        object(),
        np.ones(2),
    ]
)
_KINDS = st.sampled_from(
    [
        None,
        Number(),
        Number(log=True, squared=True),
        Category(),
        Category(baseline="a"),
        Ordered(["a", "b"]),
        3,
        [],
    ]
)


@settings(max_examples=400)
@given(
    table=st.dictionaries(
        st.sampled_from(["x", "y", "z"]), st.lists(_ODD, min_size=3, max_size=3), min_size=1
    ).map(lambda columns: {"name": ["p", "q", "r"], **columns}),
    rows=st.lists(st.dictionaries(st.sampled_from(["name", "x", 3]), _ODD), max_size=4),
    use_rows=st.booleans(),
    label=st.sampled_from(["name"] * 6 + ["x", 3, None, ["x"]]),
    features=st.one_of(
        st.none(), st.lists(_ODD, max_size=3), st.dictionaries(st.sampled_from(["x", "y", 4]), _KINDS), _ODD
    ),
    interactions=st.one_of(st.just(()), _ODD, st.lists(_ODD, max_size=2), st.just([("x", ["y"])])),
    current=st.one_of(st.none(), _ODD),
)
def test_nonsense_is_refused_and_never_crashes(
    table: Any, rows: Any, use_rows: bool, label: Any, features: Any, interactions: Any, current: Any
) -> None:
    given_table = rows if use_rows else table
    try:
        found = Options.from_table(
            given_table, label=label, features=features, interactions=interactions, current=current
        )
    except InvalidValue as error:
        lines = str(error).splitlines()
    else:
        lines = [""]
        assert np.linalg.norm(found.actions.matrix, axis=1).max() <= 1 + 1e-9
        assert Options.from_json(found.to_json()) == found
    assert len(lines) == 1
