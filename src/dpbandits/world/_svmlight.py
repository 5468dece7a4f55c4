"""A reader of svmlight ranking files, the format of Yahoo!, MSLR and LETOR.

    relevance qid:QUERY index:value index:value ...  # comment

There is one judged document per line. Indices are whole numbers from 1, in ascending order; omitted features
are zero. Features stay sparse. The reader of scikit-learn is not used, because its errors do not name the
line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.world._text_files import numbered_lines


@dataclass(frozen=True, kw_only=True, eq=False)
class Judgements:
    """The contents of a file, one row per document.

    Attributes:
        features: The features.
        relevance: The grade of each document.
        queries: The query of each document.
    """

    features: csr_array
    relevance: FloatArray
    queries: NDArray[np.str_]


def read_svmlight(path: str | Path) -> Judgements:
    """Read a whole file; an error names the first invalid line."""
    grades, queries = list[float](), list[str]()
    values, columns, starts = list[float](), list[int](), [0]
    for number, line in numbered_lines(path):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            grade, query = _head(words)
            _append_features(words[2:], columns, values)
        except InvalidValue as error:
            raise InvalidValue(f"{path}, line {number}: {error.field}", error.value, error.expected) from None
        grades.append(grade)
        queries.append(query)
        starts.append(len(values))
    if not grades:
        raise InvalidValue("data", path, "at least one line `relevance qid:QUERY index:value ...`")
    shape = (len(grades), max(columns, default=0))
    features = csr_array((np.array(values), np.array(columns) - 1, np.array(starts)), shape=shape)
    return Judgements(features=features, relevance=np.array(grades), queries=np.array(queries))


def _head(words: list[str]) -> tuple[float, str]:
    """Return the grade and the query of a line."""
    grade = _number("relevance", words[0])
    if grade < 0:
        raise InvalidValue("relevance", words[0], "a number >= 0 (leave unjudged documents out)")
    if len(words) < 2 or not words[1].startswith("qid:") or words[1] == "qid:":
        given = words[1] if len(words) > 1 else "nothing"
        raise InvalidValue("query", given, "qid:QUERY after the relevance; queries are the users")
    return grade, words[1][4:]


def _append_features(words: list[str], columns: list[int], values: list[float]) -> None:
    """Append the features of a line to the columns and values of a sparse matrix."""
    before = 0
    for word in words:
        index, _, value = word.partition(":")
        if not index.isdecimal() or int(index) <= before:
            raise InvalidValue("feature", word, "index:value, with whole indices from 1 in ascending order")
        before = int(index)
        columns.append(before)
        values.append(_number(f"feature {index}", value))


def _number(field: str, word: str) -> float:
    """Return a finite number, or raise an error that names the field."""
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InvalidValue(field, repr(word), "a finite number")
    return value
