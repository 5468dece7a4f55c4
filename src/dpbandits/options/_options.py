"""`Options`: what can be chosen, with names and features in the user's words.

options = Options.from_table("plans.csv", label="name", features=["price", "colour"], current="basic")
options.actions            # the matrix for the rest of the library
options.index("basic")     # the row of an option
print(options)             # how the table was encoded
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.options._encoding import Encoding, check_independent
from dpbandits.options._feature import Feature, fit_feature, inferred
from dpbandits.options._kernel import Kernel, largest_left_out, with_landmarks
from dpbandits.options._kinds import Kind, Level, checked_kind, is_level, listed, shown
from dpbandits.options._tables import Columns, read_columns

Features = Sequence[str] | Mapping[str, Kind | None] | Encoding
Interactions = Sequence[tuple[str, str]] | str
_LONGER = 1 + 1e-9  # so that rounding makes no row longer than 1, and none has to be shortened


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The effect of one term on the mean reward, in the user's units.

    Attributes:
        term: The term, for example `price`, `colour=red`, or `price × colour=red`.
        estimate: How much the mean reward changes if the term grows by 1 and all other terms stay.
        deviation: The standard deviation of the estimate; None if it is not known.
        low: The lower end of the confidence interval; None if there is none.
        high: The upper end.

    Example:
        >>> import dpbandits as dp
        >>> options = dp.Options.from_table({"name": ["a", "b"], "price": [1, 3]})
        >>> effect = options.effects([0.5, 0.2])[1]
        >>> effect.term, round(effect.estimate, 3)
        ('price', 0.141)
    """

    term: str
    estimate: float
    deviation: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options with names, features and an encoding. `from_table` and `grid` make one.

    Attributes:
        labels: The name of each option; row i of `actions` is option i.
        table: The features of the options, as the user gave them.
        encoding: How the table becomes `actions`.
        current: The option that is in use today; None if there is none.

    Example:
        >>> import dpbandits as dp
        >>> table = {"name": ["basic", "plus", "max"], "price": [10, 15, 29], "net": ["red", "blue", "red"]}
        >>> options = dp.Options.from_table(table, current="basic")
        >>> options.labels, options.index("max")
        (('basic', 'plus', 'max'), 2)
        >>> options
        Options(3 x 3, features: price, net, current='basic')
    """

    labels: tuple[str, ...]
    table: dict[str, tuple[Level, ...]]
    encoding: Encoding
    current: str | None = None

    def __post_init__(self) -> None:
        _check_labels(self.labels, self.current)
        for feature in self.encoding.features:
            given = len(self.table.get(feature.name, ()))
            if given != len(self.labels):
                expected = f"{len(self.labels)}, one per option"
                raise InvalidValue(f"table, column {feature.name}", f"{given} values", expected)
        _ = self.actions  # raises if the table cannot be encoded

    @classmethod
    def from_table(
        cls,
        table: object,
        *,
        label: str = "name",
        features: Features | None = None,
        interactions: Interactions = (),
        kernel: Kernel | None = None,
        current: str | None = None,
    ) -> Options:
        """Encode a table with one option per row.

        Args:
            table: A pandas or Polars data frame, an Arrow table, the path of a CSV file, a mapping from
                column names to columns, or a list of dicts.
            label: The column with the names of the options.
            features: The columns to use. A list of names infers the kinds: numbers are `Number`, all else is
                `Category`. A mapping gives the kind of each column, or None to infer it. An `Encoding` of
                another table is used as it is. By default all columns but the label are used.
            interactions: Pairs of features whose products are columns too, or "all" for all pairs.
            kernel: If given, the columns are those of a kernel, so that mean rewards may be any smooth
                function of the features.
            current: The name of the option that is in use today.

        Returns:
            The options.

        Raises:
            InvalidValue: The table cannot be encoded, or a column is a combination of others. The error
                names the column, the row and the value.
        """
        columns = read_columns(table, text=label)
        names = _labels(columns, label)
        _check_labels(names, current)
        rows = _row_names(names)
        if isinstance(features, Encoding):
            for name, given in (("interactions", interactions), ("kernel", kernel)):
                if given is not None and given != ():
                    raise InvalidValue(name, shown(given), "none with an encoding, which has its own")
            encoding = features
            _check_columns(columns, [one.name for one in encoding.features])
        else:
            encoding = _fitted(columns, rows, _kinds(columns, label, features, rows), interactions, kernel)
        used = {one.name: tuple(columns[one.name]) for one in encoding.features}
        return cls(labels=names, table=used, encoding=encoding, current=current)

    @classmethod
    def grid(
        cls,
        factors: Mapping[str, Sequence[Level]] | None = None,
        /,
        *,
        features: Mapping[str, Kind | None] | None = None,
        interactions: Interactions = (),
        kernel: Kernel | None = None,
        current: str | Mapping[str, Level] | None = None,
        **named: Sequence[Level],
    ) -> Options:
        """Return all combinations of the values of some factors.

        Example: `Options.grid(tilt=[2, 4, 6], scheduler=["fair", "greedy"])` has six options, of which the
        first is named `tilt=2, scheduler=fair`.

        Args:
            factors: The values of each factor, for names that are no Python identifiers.
            features: The kinds of some factors, as in `from_table`; the others are inferred.
            interactions: As in `from_table`.
            kernel: As in `from_table`.
            current: The option in use today: its name, or the value of each factor.
            named: The values of each factor.

        Raises:
            InvalidValue: A factor has fewer than two values, or as in `from_table`.
        """
        given = {**(factors or {}), **named}
        if not given:
            raise InvalidValue("grid", "no factors", "values of at least one factor, such as tilt=[2, 4]")
        for name, values in given.items():
            _check_factor(name, values)
        _check_columns(given, list(features or {}), field="features")
        chosen = list(product(*given.values()))
        table = {name: [row[place] for row in chosen] for place, name in enumerate(given)}
        names = [_grid_label(dict(zip(given, row, strict=True))) for row in chosen]
        kinds = {name: (features or {}).get(name) for name in given}
        if isinstance(current, Mapping):  # in the order of the factors, so that it is the name of an option
            order = sorted(current, key=list({**given, **current}).index)
            current = _grid_label({name: current[name] for name in order})
        label = "option" if "option" not in given else "name of the option"
        return cls.from_table(
            {label: names, **table},
            label=label,
            features=kinds,
            interactions=interactions,
            kernel=kernel,
            current=current,
        )

    @cached_property
    def actions(self) -> Actions:
        """The encoded options, for the rest of the library."""
        rows = _row_names(self.labels)
        matrix = self.encoding.encode(self.table, rows)
        seen = dict[bytes, int]()
        for place, row in enumerate(matrix + 0.0):  # + 0.0 turns −0.0 into 0.0
            earlier = seen.setdefault(row.tobytes(), place)
            if earlier != place:
                expected = "options that differ in a feature"
                if isinstance(self.encoding.kernel, Kernel):
                    expected += ", or a larger rank, so that the kernel separates them"
                raise InvalidValue(rows[place], f"the same features as {rows[earlier]}", expected)
        return Actions(matrix)

    @cached_property
    def left_out(self) -> float:
        """What the columns of a kernel leave out of the mean rewards; 0 without a kernel.

        If mean rewards are a constant plus a function of norm N in the space of the kernel, they deviate from
        a linear function of the columns by at most N times this number. docs/theory.md has the proof. A
        function of norm N varies by at most √2·N over all options.

        Example:
            >>> import dpbandits as dp
            >>> table = {"name": ["5 €", "6 €", "7 €", "8 €", "9 €"], "price": [5, 6, 7, 8, 9]}
            >>> [
            ...     round(dp.Options.from_table(table, kernel=dp.Kernel(rank=rank)).left_out, 3)
            ...     for rank in (3, 4, 5)
            ... ]
            [0.59, 0.522, 0.0]
        """
        if not isinstance(self.encoding.kernel, Kernel):
            return 0.0
        return largest_left_out(self.encoding.kernel_basis(self.table, _row_names(self.labels)).left)

    def index(self, label: str) -> int:
        """Return the row of an option in `actions`.

        Args:
            label: The name of the option.

        Raises:
            InvalidValue: There is no such option.
        """
        if label not in self.labels:
            raise InvalidValue("label", shown(label), f"one of {listed(self.labels)}")
        return self.labels.index(label)

    def __hash__(self) -> int:
        return hash((self.labels, self.encoding, self.current))

    def __len__(self) -> int:
        return len(self.labels)

    def effects(self, theta: ArrayLike, covariance: ArrayLike | None = None) -> tuple[Effect, ...]:
        """Translate an estimate of θ into effects in the user's units.

        Args:
            theta: The estimate; the mean reward of an option x is ⟨θ, x⟩.
            covariance: The covariance of the estimate; without it effects have no deviation.

        Returns:
            One effect per term of the encoding. The first is the intercept: the mean reward where every other
            term is zero. A kernel has no terms, so there are no effects.

        Raises:
            InvalidValue: The estimate or the covariance has the wrong shape.
        """
        size, translation = len(self.encoding.columns), self.encoding.translation()
        vector = finite_matrix(theta=np.atleast_2d(np.asarray(theta)))
        if vector.shape != (1, size):
            raise InvalidValue("theta", f"shape {np.shape(theta)}", f"{size} numbers, one per column")
        deviations: list[float | None] = [None] * len(translation)
        if covariance is not None:
            deviations = list(_deviations(translation, np.asarray(covariance)))
        estimates = (translation @ vector[0]).tolist()
        return tuple(
            Effect(term=term, estimate=estimate, deviation=deviation)
            for term, estimate, deviation in zip(self.encoding.terms, estimates, deviations, strict=True)
        )

    def with_current(self, current: str | None) -> Options:
        """Return the same options with another one in use today.

        Args:
            current: The name of an option; None for none.
        """
        return replace(self, current=current)

    def to_json(self) -> str:
        """Return the options as JSON, from which `from_json` makes the same options with equal actions."""
        return msgspec.json.encode(self, order="deterministic").decode()

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of `to_json`: names, features, encoding and the option in use today."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @classmethod
    def from_json(cls, data: str | bytes) -> Options:
        """Return the options that `to_json` wrote.

        Args:
            data: The JSON.

        Raises:
            InvalidValue: The JSON is malformed, or does not contain valid options.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except InvalidValue:
            raise
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            cause = " ".join(str(error).split())
            raise InvalidValue("options", "unreadable JSON", f"what to_json wrote ({cause})") from None

    def describe(self) -> str:
        """Return a description of the options and of how they are encoded."""
        today = "" if self.current is None else f", {self.current!r} in use today"
        found = f"{len(self)} options{today}: {listed(self.labels, 4)}\n{self.encoding.describe()}"
        if isinstance(self.encoding.kernel, Kernel):
            found += f"\nthe columns leave out at most {self.left_out:.2g} of the norm of the mean reward"
        return found

    __str__ = describe

    def __repr__(self) -> str:
        today = "" if self.current is None else f", current={self.current!r}"
        features = ", ".join(feature.name for feature in self.encoding.features)
        return f"Options({len(self)} x {len(self.encoding.columns)}, features: {features}{today})"


def _deviations(translation: FloatArray, covariance: FloatArray) -> list[float]:
    matrix, size = finite_matrix(covariance=covariance), translation.shape[1]
    if matrix.shape != (size, size):
        raise InvalidValue("covariance", f"shape {matrix.shape}", f"({size}, {size})")
    variances = np.einsum("ij,jk,ik->i", translation, matrix, translation)
    return [float(root) for root in np.sqrt(np.maximum(variances, 0.0))]


def _row_names(labels: Sequence[str]) -> list[str]:
    return [f"row {number} ({label})" for number, label in enumerate(labels, 1)]


def _labels(columns: Columns, label: str) -> tuple[str, ...]:
    _check_columns(columns, [label], field="label")
    for number, value in enumerate(columns[label], 1):
        if not is_level(value) or not str(value).strip():
            state = "a missing value" if value is None else shown(value)
            raise InvalidValue(f"{label}, row {number}", state, "the name of an option")
    return tuple(" ".join(str(value).split()) for value in columns[label])


def _check_labels(labels: Sequence[str], current: object) -> None:
    first = dict[str, int]()
    for number, label in enumerate(labels, 1):
        if first.setdefault(label, number) != number:
            again = f"{label!r} again, as in row {first[label]}"
            raise InvalidValue(f"label, row {number}", again, "distinct names")
    if len(labels) < 2:
        raise InvalidValue("table", f"{len(labels)} option", "at least two options")
    if current is not None and (not isinstance(current, str) or current not in labels):
        raise InvalidValue("current", shown(current), f"one of {listed(labels)}")


def _check_columns(columns: Mapping[str, Any], wanted: Sequence[object], *, field: str = "features") -> None:
    for name in wanted:
        if not isinstance(name, str) or name not in columns:
            raise InvalidValue(field, shown(name), f"a column of the table: {listed(list(columns))}")


def _kinds(columns: Columns, label: str, features: object, rows: Sequence[str]) -> dict[str, Kind]:
    """Return the kind of each feature, in order."""
    wanted: dict[str, object]
    if features is None:
        wanted = {name: None for name in columns if name != label}
    elif isinstance(features, Mapping):
        wanted = dict(features)
    elif isinstance(features, str) or not isinstance(features, Sequence):
        expected = "a list of columns, or a mapping from columns to kinds"
        raise InvalidValue("features", shown(features), expected)
    else:
        _check_columns(columns, features)
        wanted = dict.fromkeys(features)
        if len(wanted) != len(features):
            twice = next(name for name in features if list(features).count(name) > 1)
            raise InvalidValue("features", f"{twice!r} twice", "each column once")
    if not wanted:
        raise InvalidValue("features", "none", "at least one column that is not the label")
    _check_columns(columns, list(wanted))
    return {
        name: inferred(name, columns[name], rows) if kind is None else checked_kind(name, kind)
        for name, kind in wanted.items()
    }


def _fitted(
    columns: Columns,
    rows: Sequence[str],
    kinds: dict[str, Kind],
    interactions: Interactions,
    kernel: object,
) -> Encoding:
    features = tuple(fit_feature(name, kind, columns[name], rows) for name, kind in kinds.items())
    if kernel is not None:
        return _with_kernel(columns, rows, features, interactions, kernel)
    found = Encoding(features=features, interactions=_pairs(features, interactions))
    if len(found.columns) > len(rows):
        expected = f"at most {len(rows)}, the number of options; use fewer features, levels or interactions"
        raise InvalidValue("features", f"{len(found.columns)} columns ({listed(found.columns)})", expected)
    matrix = found.unscaled(columns, rows)
    check_independent(found.columns, matrix)
    return replace(found, length=float(np.linalg.norm(matrix, axis=1).max()))


def _with_kernel(
    columns: Columns, rows: Sequence[str], features: tuple[Feature, ...], interactions: object, kernel: object
) -> Encoding:
    if not isinstance(kernel, Kernel):
        raise InvalidValue("kernel", shown(kernel), "Kernel(...) or None")
    chosen = with_landmarks(kernel, features, columns, rows)
    found = Encoding(features=features, interactions=_pairs(features, interactions), kernel=chosen)
    squares = np.ones(len(rows))
    for column in found.kernel_basis(columns, rows).columns:  # in this order on every processor
        squares = squares + column * column
    return replace(found, length=math.sqrt(float(squares.max())) * _LONGER)


def _pairs(features: Sequence[Feature], interactions: object) -> tuple[tuple[str, str], ...]:
    names = [feature.name for feature in features]
    if interactions == "all":
        return tuple(combinations(names, 2))
    expected = f'"all", or a list of pairs of {listed(names)}'
    if isinstance(interactions, str) or not isinstance(interactions, Sequence):
        raise InvalidValue("interactions", shown(interactions), expected)
    found = list[tuple[str, str]]()
    for pair in interactions:
        ends = tuple(pair) if isinstance(pair, Sequence) and not isinstance(pair, str) else ()
        known = all(isinstance(end, str) and end in names for end in ends)
        if len(ends) != 2 or not known or ends[0] == ends[1]:
            raise InvalidValue("interactions", shown(pair), expected)
        if set(ends) in [set(earlier) for earlier in found]:
            raise InvalidValue("interactions", f"{shown(pair)} twice", "each pair once")
        found.append((ends[0], ends[1]))
    return tuple(found)


def _check_factor(name: str, values: Any) -> None:
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not is_list or len(list(values)) < 2:
        raise InvalidValue(f"grid, {name}", shown(values), "a list of at least two values")


def _grid_label(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
