"""`Options`: what can be chosen, with names and features in the user's words.

options = Options.from_table("plans.csv", label="name", features=["price", "colour"], current="basic")
options.actions            # the matrix for the rest of the library
options.index("basic")     # the row of an option
print(options)             # how the table was encoded
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue
from dpbandits.options._effects import Effect, effects_of
from dpbandits.options._encoding import Encoding
from dpbandits.options._fitting import Interactions, check_columns, fit_encoding, kinds_of
from dpbandits.options._kernel import Kernel, largest_left_out
from dpbandits.options._kinds import Kind, Level, is_level, listed, shown
from dpbandits.options._tables import Columns, read_columns

Features = Sequence[str] | Mapping[str, Kind | None] | Encoding


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
            check_columns(columns, [one.name for one in encoding.features])
        else:
            kinds = kinds_of(columns, label, features, rows)
            encoding = fit_encoding(columns, rows, kinds, interactions, kernel)
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
            factors: The values of each factor, by name. Needed only for names that are not Python
                identifiers, such as `{"tilt in °": [2, 4]}`.
            features: The kinds of some factors, as in `from_table`; the others are inferred.
            interactions: As in `from_table`.
            kernel: As in `from_table`.
            current: The option in use today: its name, or the value of each factor.
            named: The values of each factor whose name is a Python identifier, such as `tilt=[2, 4]`.

        Returns:
            The options, in the order of `itertools.product`.

        Raises:
            InvalidValue: There are no factors, a factor has fewer than two values, or the table of all
                combinations cannot be encoded (see `from_table`).
        """
        given = {**(factors or {}), **named}
        if not given:
            raise InvalidValue("grid", "no factors", "values of at least one factor, such as tilt=[2, 4]")
        for name, values in given.items():
            _check_factor(name, values)
        check_columns(given, list(features or {}), field="features")
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
        return effects_of(self.encoding, theta, covariance)

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
            found += (
                "\nmean rewards deviate from a linear function of these columns by at most "
                f"{self.left_out:.2g} times their norm in the space of the kernel"
            )
        return found

    __str__ = describe

    def __repr__(self) -> str:
        today = "" if self.current is None else f", current={self.current!r}"
        features = ", ".join(feature.name for feature in self.encoding.features)
        return f"Options({len(self)} x {len(self.encoding.columns)}, features: {features}{today})"


def _row_names(labels: Sequence[str]) -> list[str]:
    return [f"row {number} ({label})" for number, label in enumerate(labels, 1)]


def _labels(columns: Columns, label: str) -> tuple[str, ...]:
    check_columns(columns, [label], field="label")
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


def _check_factor(name: str, values: Any) -> None:
    is_list = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not is_list or len(list(values)) < 2:
        raise InvalidValue(f"grid, {name}", shown(values), "a list of at least two values")


def _grid_label(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def name_of(options: Options | None, action: int) -> str:
    """Return the name of an option, or `action 17` if the actions of a study have no names.

    Args:
        options: The options; None if the actions have no names.
        action: The row of the option in the actions, counted from 0.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.options import name_of
        >>> name_of(examples.options(), 1), name_of(None, 1)
        ('b', 'action 1')
    """
    return f"action {action}" if options is None else options.labels[action]
