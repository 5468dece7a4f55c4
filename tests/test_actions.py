"""Action sets: generated ones, files, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dpbandits.actions import FAMILIES, Actions
from dpbandits.errors import InvalidValue


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (2, 1), (1, 5), (50, 2), (1000, 20)])
def test_generated_sets_are_valid_and_reproducible(family: str, count: int, dimension: int) -> None:
    actions = Actions.generate(family, count=count, dimension=dimension, rng=3)
    assert actions.matrix.shape == (count, dimension)
    assert np.linalg.norm(actions.matrix, axis=1).max() <= 1 + 1e-9
    assert actions == Actions.generate(family, count=count, dimension=dimension, rng=3)
    if dimension > 1:  # the sphere of R^1 has only two points
        assert actions != Actions.generate(family, count=count, dimension=dimension, rng=5)


def test_families_are_what_they_say() -> None:
    norms = np.linalg.norm(Actions.generate("sphere", count=100, dimension=7, rng=0).matrix, axis=1)
    assert norms == pytest.approx(np.ones(100))
    assert np.linalg.matrix_rank(Actions.generate("low-rank", count=100, dimension=8, rng=0).matrix) == 4
    assert np.linalg.matrix_rank(Actions.generate("ball", count=100, dimension=8, rng=0).matrix) == 8


def test_more_actions_than_a_sphere_has_points() -> None:
    with pytest.raises(InvalidValue, match="at most 2"):
        Actions.generate("sphere", count=3, dimension=1, rng=0)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, np.nan]], r"actions\[0, 1\]: got nan"),
        ([[0.5, np.inf]], r"actions\[0, 1\]: got inf"),
        ([[1.0, 0.0], [0.9, 0.9]], r"actions\[1\]: got norm 1.27"),
        ([[1e200, 0.0]], r"actions\[0\]: got norm"),
        ([[0.1, 0.2], [0.3, 0.4], [0.1, 0.2]], r"actions\[2\]: got a copy of an earlier row"),
        ([[0.0, 0.5], [-0.0, 0.5]], "distinct"),
        (np.zeros((0, 3)), "at least one row"),
        ([0.5, 0.5], "at least one row"),
        ([[0.5, 0.5], [0.5]], "actions: got list, expected a matrix of numbers"),
    ],
)
def test_bad_sets_are_refused_with_the_place(matrix: object, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        Actions(matrix)  # type: ignore[arg-type]


def test_the_matrix_is_a_private_read_only_copy() -> None:
    given = np.array([[0.5, 0.5]])
    actions = Actions(given)
    given[0, 0] = 9
    assert actions.matrix[0, 0] == 0.5
    with pytest.raises(ValueError, match="read-only"):
        actions.matrix[0, 0] = 1


def test_files_round_trip(tmp_path: Path) -> None:
    actions = Actions.generate("ball", count=20, dimension=3, rng=1)
    np.savez(tmp_path / "a.npz", actions=actions.matrix, other=np.zeros(2))
    np.savez(tmp_path / "b.npz", actions.matrix)
    lines = ["x,y,z"] + [",".join(repr(float(v)) for v in row) for row in actions.matrix]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(lines[1:]))
    for name in ("a.npz", "b.npz", "a.csv", "b.csv"):
        assert Actions.load(tmp_path / name) == actions


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "0.1,0.2\n0.3\n", "line 2: got 1 cells, expected 2"),
        ("a.csv", "0.1,0.2\n0.3,x\n", "line 2, column 2: got 'x', expected a number"),
        ("a.csv", "", "at least one line"),
        ("a.csv", "x,y\n", "at least one line"),
        ("a.csv", "0.1,nan\n", r"actions\[0, 1\]: got nan"),
        ("a.npz", "not a zip", "a readable NPZ file"),
        ("a.txt", "0.1", "ends in .csv or .npz"),
    ],
)
def test_bad_files_are_refused_with_the_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InvalidValue, match=message):
        Actions.load(tmp_path / name)


def test_a_csv_file_may_begin_with_a_byte_order_mark_and_must_be_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbf0.1\n0.2\n")
    assert Actions.load(path) == Actions([[0.1], [0.2]])
    path.write_bytes("# loss 0.25\n0.1\n".encode("utf-8-sig"))
    assert Actions.load(path).loss == 0.25
    path.write_bytes(b"gr\xf6\xdfe\n0.1\n")
    with pytest.raises(InvalidValue, match="expected a CSV file in UTF-8"):
        Actions.load(path)


def test_an_npz_file_with_several_arrays_needs_the_name(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", first=np.eye(2), second=np.eye(3))
    with pytest.raises(InvalidValue, match="one named `actions`"):
        Actions.load(tmp_path / "a.npz")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="gone.csv"):
        Actions.load(tmp_path / "gone.csv")


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_what_is_saved_is_loaded(suffix: str, loss: float, tmp_path: Path) -> None:
    actions = Actions([[0.1, 1 / 3], [0.5, 0.25]], loss=loss)
    actions.save(tmp_path / f"x{suffix}")
    again = Actions.load(tmp_path / f"x{suffix}")
    assert again == actions
    assert again.loss == loss


@pytest.mark.parametrize("loss", ["-0.1", "nan", "much"])
def test_a_loss_that_is_none_is_refused(loss: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"# loss {loss}\n0.1,0.2\n")
    with pytest.raises(InvalidValue, match="loss: got"):
        Actions.load(path)
    np.savez(tmp_path / "x.npz", actions=np.eye(2), loss=np.ones(2))
    with pytest.raises(InvalidValue, match="loss: got"):
        Actions.load(tmp_path / "x.npz")
