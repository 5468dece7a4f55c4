"""The choice of the encoding of a table: the kinds of columns, the interactions and the length of rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from dpbandits.errors import InvalidValue
from dpbandits.options._encoding import Encoding, check_independent
from dpbandits.options._feature import Feature, fit_feature, inferred
from dpbandits.options._kernel import Kernel, with_landmarks
from dpbandits.options._kinds import Kind, checked_kind, listed, shown
from dpbandits.options._tables import Columns

Interactions = Sequence[tuple[str, str]] | str
_LONGER = 1 + 1e-9  # so that rounding does not make a row longer than 1, which would then be shortened


def check_columns(columns: Mapping[str, Any], wanted: Sequence[object], *, field: str = "features") -> None:
    """Raise an error that names the field, if a wanted column is missing."""
    for name in wanted:
        if not isinstance(name, str) or name not in columns:
            raise InvalidValue(field, shown(name), f"a column of the table: {listed(list(columns))}")


def kinds_of(columns: Columns, label: str, features: object, rows: Sequence[str]) -> dict[str, Kind]:
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
        check_columns(columns, features)
        wanted = dict.fromkeys(features)
        if len(wanted) != len(features):
            twice = next(name for name in features if list(features).count(name) > 1)
            raise InvalidValue("features", f"{twice!r} twice", "each column once")
    if not wanted:
        raise InvalidValue("features", "none", "at least one column that is not the label")
    check_columns(columns, list(wanted))
    return {
        name: inferred(name, columns[name], rows) if kind is None else checked_kind(name, kind)
        for name, kind in wanted.items()
    }


def fit_encoding(
    columns: Columns,
    rows: Sequence[str],
    kinds: dict[str, Kind],
    interactions: Interactions,
    kernel: object,
) -> Encoding:
    """Return the encoding of a table whose columns have these kinds."""
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
