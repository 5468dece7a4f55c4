"""Tables become vectors of the unit ball, and estimates become effects in the user's units again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dpbandits import Category, Number, Options, Ordered
from dpbandits.errors import InvalidValue

PLANS = {
    "name": ["a", "b", "c", "d", "e", "f", "g", "h"],
    "price": [1, 2, 3, 4, 5, 6, 7, 9],
    "colour": ["red", "blue", "green", "red", "blue", "green", "red", "blue"],
    "size": ["S", "M", "L", "S", "L", "M", "L", "S"],
}
KINDS = {"price": Number(log=True, squared=True), "colour": None, "size": Ordered(["S", "M", "L"])}


def _values(term: str, row: dict[str, Any], kinds: dict[str, Any]) -> float:
    """Evaluate a term of the description in the user's units, independently of the encoding."""
    if term == "intercept":
        return 1.0
    if " × " in term:
        one, two = term.split(" × ")
        return _values(one, row, kinds) * _values(two, row, kinds)
    if term.endswith("²"):
        return _values(term[:-1], row, kinds) ** 2
    if term.startswith("log("):
        return math.log(row[term[4:-1]])
    if ">=" in term:
        name, level = term.split(">=")
        levels = kinds[name].levels
        return float(levels.index(row[name]) >= levels.index(level))
    if "=" in term:
        name, level = term.split("=")
        return float(row[name] == level)
    kind = kinds[term]
    return float(kind.levels.index(row[term])) if isinstance(kind, Ordered) else float(row[term])


@st.composite
def _tables(draw: Callable[..., Any]) -> tuple[Options, dict[str, Any], list[dict[str, Any]], str]:
    """Draw the kinds of three features, and a table of enough random rows."""
    kinds = {
        "size": Number(log=draw(st.booleans()), squared=draw(st.booleans())),
        "grade": Ordered(["low", "middle", "high"], steps=draw(st.booleans())),
        "colour": Category(baseline=draw(st.sampled_from(["red", "green", "blue"]))),
    }
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    scale = 10.0 ** draw(st.integers(-3, 4))
    rows = [
        {
            "name": f"option {place}",
            "size": float(scale * rng.uniform(1, 9)),
            "grade": ["low", "middle", "high"][rng.integers(3)],
            "colour": ["red", "green", "blue"][rng.integers(3)],
        }
        for place in range(60)
    ]
    pairs = draw(st.lists(st.sampled_from(list(combinations(kinds, 2))), unique=True))
    return Options.from_table(rows, features=kinds, interactions=pairs), kinds, rows, str(pairs)


@settings(max_examples=40)
@given(_tables(), st.integers(0, 10**6))
def test_effects_of_a_polynomial_are_its_coefficients(drawn: Any, seed: int) -> None:
    options, kinds, rows, _ = drawn
    terms = options.encoding.terms
    design = np.array([[_values(term, row, kinds) for term in terms] for row in rows])
    scale = np.abs(design).max(axis=0)
    truth = np.random.default_rng(seed).standard_normal(len(terms)) / scale
    theta = np.linalg.lstsq(options.actions.matrix, design @ truth, rcond=None)[0]
    effects = options.effects(theta)
    assert [effect.term for effect in effects] == list(terms)
    found = np.array([effect.estimate for effect in effects])
    np.testing.assert_allclose(found * scale, truth * scale, atol=1e-6)


@settings(max_examples=20)
@given(_tables())
def test_rows_lie_in_the_unit_ball_and_survive_json(drawn: Any) -> None:
    options = drawn[0]
    norms = np.linalg.norm(options.actions.matrix, axis=1)
    assert norms.max() == pytest.approx(1)
    again = Options.from_json(options.to_json())
    assert again == options
    assert again.actions == options.actions
    assert again.describe() == options.describe()
    assert json.loads(options.to_json())["labels"] == list(options.labels)


def test_deviations_are_those_of_a_linear_map() -> None:
    options = Options.from_table(PLANS, features=KINDS, interactions=[("price", "colour")])
    rng, size = np.random.default_rng(2), len(options.encoding.columns)
    root = rng.standard_normal((size, size))
    drawn = rng.standard_normal((4000, size)) @ root.T
    effects = np.array([[one.estimate for one in options.effects(theta)] for theta in drawn])
    stated = np.array([one.deviation for one in options.effects(np.zeros(size), root @ root.T)])
    # The sample deviation of 4,000 normal draws is within 6 % except with probability below 10⁻⁶ per effect.
    np.testing.assert_allclose(effects.std(axis=0), stated, rtol=0.06)
    assert not np.allclose(effects.std(axis=0), stated * 1.1, rtol=0.06)


def test_the_intercept_of_effects_is_the_reward_at_the_baseline() -> None:
    options = Options.from_table(PLANS, features={"colour": Category(baseline="green"), "price": Number()})
    means = [
        10 + 2 * (colour == "red") - price
        for colour, price in zip(PLANS["colour"], PLANS["price"], strict=True)
    ]  # type: ignore[operator]
    theta = np.linalg.lstsq(options.actions.matrix, np.array(means, dtype=float), rcond=None)[0]
    found = {effect.term: round(effect.estimate, 9) for effect in options.effects(theta)}
    assert found == {"intercept": 10, "colour=red": 2, "colour=blue": 0, "price": -1}


def test_kinds_are_inferred() -> None:
    options = Options.from_table({**PLANS, "sale": [True, False] * 4}, current="b")
    kinds = {feature.name: feature.kind for feature in options.encoding.features}
    assert kinds == {"price": "number", "colour": "category", "size": "category", "sale": "category"}
    assert options.labels == tuple("abcdefgh")
    assert options.current == "b"
    assert [options.index(label) for label in options.labels] == list(range(8))
    assert "baseline red, a column each for blue, green" in str(options)
    assert repr(options) == "Options(8 x 7, features: price, colour, size, sale, current='b')"


def test_an_encoding_is_used_for_another_table() -> None:
    options = Options.from_table(PLANS, features=KINDS)
    some = {name: values[1:4] for name, values in PLANS.items()}
    again = Options.from_table(some, features=options.encoding)
    np.testing.assert_array_equal(again.actions.matrix, options.actions.matrix[1:4])
    outside = {**some, "price": [2, 3, 400]}
    with pytest.raises(InvalidValue, match=r"row 3 \(d\): got a vector of norm .*, expected values within"):
        Options.from_table(outside, features=options.encoding)
    with pytest.raises(InvalidValue, match=r"colour, row 2 \(c\): got 'pink', expected one of 'red', 'blue'"):
        Options.from_table({**some, "colour": ["red", "pink", "red"]}, features=options.encoding)


def test_a_grid_has_all_combinations() -> None:
    options = Options.grid(
        tilt=[2, 4, 6], scheduler=["fair", "greedy"], current={"scheduler": "fair", "tilt": 4}
    )
    assert len(options) == 6
    assert options.labels[:2] == ("tilt=2, scheduler=fair", "tilt=2, scheduler=greedy")
    assert options.current == "tilt=4, scheduler=fair"
    assert options.encoding.columns == ("intercept", "tilt", "scheduler=greedy")
    squared = Options.grid({"tilt angle": [2, 4, 6]}, features={"tilt angle": Number(squared=True)})
    assert squared.encoding.columns == ("intercept", "tilt angle", "tilt angle²")


def test_the_label_as_a_category_assumes_nothing() -> None:
    options = Options.from_table(PLANS, features={"name": Category(baseline="c")})
    assert len(options.encoding.columns) == 8
    means = np.arange(8.0)
    theta = np.linalg.solve(options.actions.matrix, means)
    found = {effect.term: round(effect.estimate, 9) for effect in options.effects(theta)}
    assert found["intercept"] == 2
    assert found["name=h"] == 5


def test_csv_rows_columns_and_frames_give_the_same_options(tmp_path: Path) -> None:
    options = Options.from_table(PLANS, features=KINDS)
    rows = [dict(zip(PLANS, row, strict=True)) for row in zip(*PLANS.values(), strict=True)]
    lines = [",".join(PLANS), *(",".join(map(str, row.values())) for row in rows)]
    path = tmp_path / "plans.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for table in (rows, path, str(path), _Frame(PLANS), _Arrow(PLANS)):
        again = Options.from_table(table, features=KINDS)
        assert again == options


def test_names_in_a_file_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "plans.csv"
    path.write_text("name,price\n007,1\n08,2\n", encoding="utf-8")
    assert Options.from_table(path, current="007").labels == ("007", "08")


def test_codes_with_underscores_in_a_file_stay_text(tmp_path: Path) -> None:
    path = tmp_path / "plans.csv"
    path.write_text("name,price,code\na,1,10_1\nb,2,10_2\nc,3,10_1\n", encoding="utf-8")
    assert Options.from_table(path).encoding.columns == ("intercept", "price", "code=10_2")


def test_values_of_numpy_survive_json() -> None:
    rows = [
        {"name": name, "kind": np.str_("abc"[n % 3]), "sale": np.bool_(n % 2), "size": np.int64(n * n)}
        for n, name in enumerate("abcdef")
    ]
    options = Options.from_table(rows)
    assert Options.from_json(options.to_json()) == options


class _Frame:
    """What pandas and Polars have in common: `columns`, and columns that convert to lists."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = list(columns)
        self._data = {name: np.array(values) for name, values in columns.items()}

    def __getitem__(self, name: str) -> Any:
        return self._data[name]


class _Arrow:
    def __init__(self, columns: dict[str, Any]) -> None:
        self.column_names = list(columns)
        self._columns = columns
        self.to_pylist = self.column

    def column(self, name: str) -> Any:
        outer = self

        class Column:
            def to_pylist(self) -> list[Any]:
                return list(outer._columns[name])

        return Column()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames(package: str) -> None:
    frames = pytest.importorskip(package)
    frame = frames.DataFrame(PLANS)
    options = Options.from_table(PLANS, features=KINDS)
    assert Options.from_table(frame, features=KINDS) == options
    holes = frames.DataFrame({**PLANS, "price": [1.0, None, 3, 4, 5, 6, 7, 9]})
    with pytest.raises(
        InvalidValue, match=r"price, row 2 \(b\): got a missing value, expected a finite number"
    ):
        Options.from_table(holes, features=KINDS)
    unnamed = frames.DataFrame({**PLANS, "colour": ["red", None, *PLANS["colour"][2:]]})
    with pytest.raises(InvalidValue, match=r"colour, row 2 \(b\): got a missing value"):
        Options.from_table(unnamed)


def test_categories_and_numbers_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(PLANS).astype({"colour": "category", "price": "Int64", "name": "string"})
    assert Options.from_table(frame, features=KINDS) == Options.from_table(PLANS, features=KINDS)


def test_a_lazy_frame_is_refused() -> None:
    polars = pytest.importorskip("polars")
    with pytest.raises(InvalidValue, match=r"table: got a lazy frame, expected a data frame: call collect"):
        Options.from_table(polars.DataFrame(PLANS).lazy())
