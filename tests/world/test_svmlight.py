"""The reader of svmlight files, and errors that name the line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.world._svmlight import read_svmlight

from .files import write

GOOD = "2 qid:1 1:0.5 3:-2 # doc 7\n\n0 qid:b\n  # only a comment\n1.5 qid:1 2:1e3\n"


@pytest.mark.parametrize("name", ["a.txt", "a.svmlight.gz"])
def test_sparse_lines_comments_and_gzip(tmp_path: Path, name: str) -> None:
    found = read_svmlight(write(tmp_path / name, GOOD))
    np.testing.assert_array_equal(found.features.toarray(), [[0.5, 0, -2], [0, 0, 0], [0, 1000, 0]])
    assert found.relevance.tolist() == [2, 0, 1.5]
    assert found.queries.tolist() == ["1", "b", "1"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x qid:1 1:2", "line 2: relevance: got 'x', expected a finite number"),
        ("nan qid:1 1:2", "line 2: relevance: got 'nan'"),
        ("-1 qid:1 1:2", "line 2: relevance: got -1, expected a number >= 0"),
        (
            "1 1:2 2:3",
            "line 2: query: got 1:2, expected qid:QUERY after the relevance; queries are the users",
        ),
        ("1", "line 2: query: got nothing"),
        ("1 qid: 1:2", "line 2: query: got qid:"),
        ("1 qid:1 1:2 1:3", "line 2: feature: got 1:3, expected index:value"),
        ("1 qid:1 0:2", "line 2: feature: got 0:2"),
        ("1 qid:1 a:2", "line 2: feature: got a:2"),
        ("1 qid:1 3", "line 2: feature 3: got ''"),
        ("1 qid:1 3:inf", "line 2: feature 3: got 'inf'"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path / "a.txt", f"1 qid:1 1:1\n{line}\n1 qid:2 1:1\n")
    with pytest.raises(InvalidValue, match=re.escape(f"{path}, {message}")) as caught:
        read_svmlight(path)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="data: got .*none.txt, expected an existing file"):
        read_svmlight(tmp_path / "none.txt")
    with pytest.raises(InvalidValue, match="at least one line"):
        read_svmlight(write(tmp_path / "empty.txt", "# nothing\n"))
    (tmp_path / "no.gz").write_bytes(b"plain text")
    with pytest.raises(InvalidValue, match="a readable text file"):
        read_svmlight(tmp_path / "no.gz")
    (tmp_path / "binary.txt").write_bytes(b"1 qid:1 \xff\xfe")
    with pytest.raises(InvalidValue, match="a readable text file"):
        read_svmlight(tmp_path / "binary.txt")
