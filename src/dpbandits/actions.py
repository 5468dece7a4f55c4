"""The action set: a finite set of vectors that may be played. It is public.

An `Actions` value holds a read-only k × d matrix. Its rows are distinct and lie in the unit ball. It is built
from an array, from a CSV or NPZ file, or by a seeded generator, and is validated when it is built.

    actions = Actions.generate("sphere", count=1000, dimension=20, rng=0)
    actions.save("actions.csv")
    actions = Actions.load("actions.csv")
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._arrays import FloatArray
from dpbandits._checks import finite_matrix, non_negative, one_of, whole
from dpbandits.errors import InvalidValue

# Rows normalised in floating point may exceed norm 1 by a rounding error.
_NORM_SLACK = 1e-9
_LOSS = "# loss"  # prefix of the optional first line of a CSV file that states the loss


class Actions:
    """A finite set of k distinct actions in the unit ball of R^d.

    A set may approximate a continuous action set. Then `loss` is an upper bound on the regret per round of
    its best action against the best action of the continuous set, for ‖θ*‖ = 1. The loss does not change how
    the actions are played.

    Args:
        matrix: One action per row; every row has norm at most 1 and no two rows are equal.
        loss: The approximation loss per round, 0 if the set does not approximate another one.

    Raises:
        InvalidValue: If the matrix is empty, not a matrix of numbers or not finite, if a row has norm above
            1, if two rows are equal, or if the loss is negative or not finite.

    Example:
        >>> import dpbandits as dp
        >>> actions = dp.Actions([[1, 0], [0, 1], [0.6, 0.6]])
        >>> actions.count, actions.dimension
        (3, 2)
        >>> dp.Actions.generate("sphere", count=1000, dimension=20, rng=1)
        Actions(1000 x 20, digest d64c4e3fec34)
    """

    def __init__(self, matrix: ArrayLike, *, loss: float = 0.0) -> None:
        self.loss = non_negative(loss=loss)
        rows = np.array(finite_matrix(actions=matrix), order="C")
        _check_norms(rows)
        _check_distinct(rows)
        rows.flags.writeable = False
        self.matrix: FloatArray = rows

    @classmethod
    def load(cls, path: str | Path) -> Actions:
        """Read a CSV file or an NPZ file.

        A CSV file has one action per line. Its first line may be a header, or `# loss L`. An NPZ file has an
        array `actions`, or a single array of any name, and may have a number `loss` next to `actions`.

        Args:
            path: A file that ends in `.csv` or `.npz`.

        Returns:
            The action set, with its loss.

        Raises:
            InvalidValue: If the file does not exist, cannot be parsed, or does not contain a valid action
                set.
        """
        return cls(read_matrix(path), loss=_read_loss(Path(path)))

    def save(self, path: str | Path) -> None:
        """Write the actions and the loss to a file: NPZ if the path ends in `.npz`, otherwise CSV.

        Args:
            path: The file to write. `load` reads it if the path ends in `.csv` or `.npz`.
        """
        path = Path(path)
        if path.suffix.lower() == ".npz":
            with path.open("wb") as file:
                np.savez_compressed(file, actions=self.matrix, loss=self.loss)
        else:
            header = f"{_LOSS} {self.loss!r}" if self.loss else ""
            np.savetxt(path, self.matrix, fmt="%.17g", delimiter=",", header=header, comments="")

    @classmethod
    def generate(
        cls, family: str = "sphere", *, count: int, dimension: int, rng: np.random.Generator | int
    ) -> Actions:
        """Draw a random action set.

        Args:
            family: `sphere` (uniform on the unit sphere), `ball` (uniform in the unit ball), `clustered` (ten
                tight clusters) or `low-rank` (in a random subspace of about half the dimension).
            count: The number of actions, k.
            dimension: The dimension d of an action.
            rng: A generator, or a seed for a new one.

        Returns:
            The action set.

        Raises:
            InvalidValue: If the family is unknown, if `count` or `dimension` is below 1, or if more than 2
                actions are requested on the unit sphere of R^1.
        """
        one_of(FAMILIES, family=family)
        whole(1, actions=count)
        whole(1, dimension=dimension)
        if dimension == 1 and family in ("sphere", "low-rank") and count > 2:
            raise InvalidValue("actions", count, "at most 2, the points of the unit sphere in R^1")
        return cls(FAMILIES[family](np.random.default_rng(rng), count, dimension))

    @property
    def count(self) -> int:
        """The number of actions, k."""
        return int(self.matrix.shape[0])

    @property
    def dimension(self) -> int:
        """The dimension of an action, d."""
        return int(self.matrix.shape[1])

    @cached_property
    def digest(self) -> str:
        """A SHA-256 fingerprint of the set. Two sets are equal if and only if their digests are equal."""
        fingerprint = hashlib.sha256(f"{self.count}x{self.dimension}:".encode())
        fingerprint.update(np.ascontiguousarray(self.matrix, dtype="<f8").data)
        return fingerprint.hexdigest()

    def __len__(self) -> int:
        return self.count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Actions) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Actions({self.count} x {self.dimension}, digest {self.digest[:12]})"


def read_matrix(path: str | Path) -> FloatArray:
    """Read a matrix whose rows need not be valid actions yet.

    Args:
        path: A CSV file, or an NPZ file that contains either a single array or an array named `actions`.

    Returns:
        The matrix.

    Raises:
        InvalidValue: If the file does not exist, has another suffix, or cannot be parsed.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidValue("actions-file", path, "an existing .csv or .npz file")
    readers = {".csv": _read_csv, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise InvalidValue("actions-file", path, "a file that ends in .csv or .npz")
    return readers[path.suffix.lower()](path)


def _read_loss(path: Path) -> float:
    """Return the loss stored in the file, or 0 if there is none."""
    given: float | str = 0.0
    if path.suffix.lower() == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            given = archive["loss"].tolist() if "loss" in archive else 0.0
    else:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline().strip()
        given = first.removeprefix(_LOSS) if first.startswith(_LOSS) else 0.0
    try:
        return non_negative(loss=float(given))
    except (TypeError, ValueError):
        raise InvalidValue("loss", given, "one number >= 0") from None


def _check_norms(rows: FloatArray) -> None:
    """Raise an error that names the longest row if its norm is above 1."""
    # No scaling as in hypot is needed: a norm that overflows to infinity is also above 1.
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    worst = int(np.argmax(norms))
    if norms[worst] > 1 + _NORM_SLACK:
        raise InvalidValue(
            f"actions[{worst}]", f"norm {norms[worst]:.6g}", "a vector of norm <= 1 (rescale the actions)"
        )


def _check_distinct(rows: FloatArray) -> None:
    """Raise an error that names the first row that repeats an earlier one."""
    # Equal rows have equal hashes. Only rows that share a hash are compared entry by entry, so that a
    # million rows take one sort of integers and no sort of rows.
    hashes = _row_hashes(rows)
    order = np.argsort(hashes, kind="stable")
    twins = np.flatnonzero(np.diff(hashes[order]) == 0)
    suspects = np.unique(np.concatenate([order[twins], order[twins + 1]]))
    seen: set[bytes] = set()
    for place in suspects.tolist():
        row = (rows[place] + 0.0).tobytes()  # + 0.0 turns −0.0 into 0.0
        if row in seen:
            raise InvalidValue(f"actions[{place}]", "a copy of an earlier row", "distinct actions")
        seen.add(row)


def _row_hashes(rows: FloatArray) -> NDArray[np.uint64]:
    """Return one hash per row, computed in wrapping integer arithmetic in blocks of rows."""
    # Odd factors are invertible modulo 2⁶⁴: two rows that differ in one entry never share a hash.
    factors = np.random.default_rng(0).integers(1, 2**63, size=rows.shape[1], dtype=np.uint64) * 2 + 1
    hashes = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), 1 << 14):
        bits = (rows[start : start + (1 << 14)] + 0.0).view(np.uint64)
        mixed = bits ^ (bits >> np.uint64(31))
        hashes[start : start + (1 << 14)] = (mixed * factors).sum(axis=1, dtype=np.uint64)
    return hashes


def _read_csv(path: Path) -> FloatArray:
    """Parse a CSV file with one action per line.

    If none of the cells of the first line is a number, that line is a header and is skipped.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # spreadsheets write a byte order mark
    except UnicodeDecodeError:
        raise InvalidValue("actions-file", path, "a CSV file in UTF-8") from None
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    if numbered and not any(_is_number(cell) for cell in numbered[0][1].split(",")):
        numbered = numbered[1:]
    if not numbered:
        raise InvalidValue("actions-file", path, "at least one line of numbers")
    return np.array([_parse_line(path, number, line, numbered[0][1]) for number, line in numbered])


def _parse_line(path: Path, number: int, line: str, first: str) -> list[float]:
    cells = [cell.strip() for cell in line.split(",")]
    width = first.count(",") + 1
    if len(cells) != width:
        raise InvalidValue(f"{path}, line {number}", f"{len(cells)} cells", f"{width}, as in the first line")
    for column, cell in enumerate(cells, 1):
        if not _is_number(cell):
            raise InvalidValue(f"{path}, line {number}, column {column}", repr(cell), "a number")
    return [float(cell) for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_npz(path: Path) -> FloatArray:
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = list(archive)
            name = "actions" if "actions" in names else names[0]
            if name != "actions" and len(names) > 1:
                given = f"{path} with {names}"
                raise InvalidValue("actions-file", given, "one array, or one named `actions`")
            return np.asarray(archive[name])
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, IndexError) as error:
        if isinstance(error, InvalidValue):
            raise
        raise InvalidValue("actions-file", path, f"a readable NPZ file of numbers ({error})") from None


def _sphere(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    """Uniform on the unit sphere."""
    if dimension == 1:
        return np.array([[1.0], [-1.0]])[rng.permutation(2)][:count]
    rows = rng.standard_normal((count, dimension))
    normalised: FloatArray = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return normalised


def _ball(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    """Uniform in the unit ball."""
    rows = rng.standard_normal((count, dimension))
    radii = rng.random((count, 1)) ** (1 / dimension)
    scaled: FloatArray = radii * rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def _clustered(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    """Ten tight clusters inside the ball: many actions that differ little."""
    centres = 0.8 * _ball(rng, 10, dimension)
    return centres[rng.integers(10, size=count)] + 0.2 * _ball(rng, count, dimension)


def _low_rank(rng: np.random.Generator, count: int, dimension: int) -> FloatArray:
    """On the unit sphere of a random subspace of about half the dimension."""
    rank = max(1, dimension // 2)
    if rank == 1 and count > 2:
        rank = 2
    frame, _ = np.linalg.qr(rng.standard_normal((dimension, rank)))
    rows: FloatArray = _sphere(rng, count, rank) @ frame.T
    return rows


FAMILIES: dict[str, Callable[[np.random.Generator, int, int], FloatArray]] = {
    "sphere": _sphere,
    "ball": _ball,
    "clustered": _clustered,
    "low-rank": _low_rank,
}
