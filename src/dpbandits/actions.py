"""The action set: what may be played, known to everybody.

An `Actions` value is a read-only k × d matrix whose rows are distinct and lie in the unit ball. It is
made from an array, from a CSV or NPZ file, or by a seeded generator, and is validated when built.
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

# Rows that were normalised in floating point may exceed norm one by rounding.
_NORM_SLACK = 1e-9
_LOSS = "# loss"  # how the first line of a CSV file begins that has one


class Actions:
    """A finite set of k distinct actions in the unit ball of R^d.

    Where they stand for a continuous set, `loss` is what the best of them may lose to the best of that, in
    each round and for ‖θ*‖ = 1. It changes nothing about how the actions are played.
    """

    def __init__(self, matrix: ArrayLike, *, loss: float = 0.0) -> None:
        self.loss = non_negative(loss=loss)
        rows = np.array(finite_matrix(actions=np.asarray(matrix)), order="C")
        _check_norms(rows)
        _check_distinct(rows)
        rows.flags.writeable = False
        self.matrix: FloatArray = rows

    @classmethod
    def load(cls, path: str | Path) -> Actions:
        """Read a CSV file (one action a line, an optional header) or an NPZ file (array `actions`).

        A number `loss` in the NPZ file, or a first line `# loss L` in the CSV file, comes with them.
        """
        return cls(read_matrix(path), loss=_read_loss(Path(path)))

    def save(self, path: str | Path) -> None:
        """Write what `load` reads."""
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
        """Draw `count` actions: `sphere`, `ball`, `clustered` or `low-rank` (see `FAMILIES`)."""
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
        """A fingerprint of the whole set: two sets are equal exactly if their digests are."""
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
    """Read rows that need not be actions yet: a CSV file, or an NPZ file with one array or one `actions`."""
    path = Path(path)
    if not path.is_file():
        raise InvalidValue("actions-file", path, "an existing .csv or .npz file")
    readers = {".csv": _read_csv, ".npz": _read_npz}
    if path.suffix.lower() not in readers:
        raise InvalidValue("actions-file", path, "a file that ends in .csv or .npz")
    return readers[path.suffix.lower()](path)


def _read_loss(path: Path) -> float:
    """What comes with the rows of a file that was read already; nothing, usually."""
    given: float | str = 0.0
    if path.suffix.lower() == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            given = archive["loss"].tolist() if "loss" in archive else 0.0
    else:
        with path.open(encoding="utf-8") as file:
            first = file.readline().strip()
        given = first.removeprefix(_LOSS) if first.startswith(_LOSS) else 0.0
    try:
        return non_negative(loss=float(given))
    except (TypeError, ValueError):
        raise InvalidValue("loss", given, "one number >= 0") from None


def _check_norms(rows: FloatArray) -> None:
    # hypot-like scaling is not needed: an overflow to infinity is caught as too long as well.
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    worst = int(np.argmax(norms))
    if norms[worst] > 1 + _NORM_SLACK:
        raise InvalidValue(
            f"actions[{worst}]",
            f"norm {norms[worst]:.6g}",
            "a vector of norm <= 1 (rescale the actions)",
        )


def _check_distinct(rows: FloatArray) -> None:
    # Equal rows have equal hashes; of the few that have, the rows themselves are compared.
    hashes = _row_hashes(rows)
    order = np.argsort(hashes, kind="stable")
    twins = np.flatnonzero(np.diff(hashes[order]) == 0)
    suspects = np.unique(np.concatenate([order[twins], order[twins + 1]]))
    seen: set[bytes] = set()
    for place in suspects.tolist():
        row = (rows[place] + 0.0).tobytes()  # + 0.0 makes −0.0 and 0.0 one value
        if row in seen:
            raise InvalidValue(f"actions[{place}]", "a copy of an earlier row", "distinct actions")
        seen.add(row)


def _row_hashes(rows: FloatArray) -> NDArray[np.uint64]:
    """A number for each row, computed in wrapping integer arithmetic, a block of rows at a time."""
    factors = np.random.default_rng(0).integers(1, 2**63, size=rows.shape[1], dtype=np.uint64) * 2 + 1
    hashes = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), 1 << 14):
        bits = (rows[start : start + (1 << 14)] + 0.0).view(np.uint64)
        mixed = bits ^ (bits >> np.uint64(31))
        hashes[start : start + (1 << 14)] = (mixed * factors).sum(axis=1, dtype=np.uint64)
    return hashes


def _read_csv(path: Path) -> FloatArray:
    """One action a line; a first line in which no cell is a number is taken as a header."""
    lines = path.read_text(encoding="utf-8").splitlines()
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
                raise InvalidValue(
                    "actions-file", f"{path} with {names}", "one array, or one named `actions`"
                )
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
