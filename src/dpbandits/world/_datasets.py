"""Data sets by name: `mslr-sample`, which ships with the package, `ranking:PATH` and `cellular:PATH`."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from dpbandits.errors import InvalidValue
from dpbandits.world._cellular import cellular
from dpbandits.world._dataset import Dataset
from dpbandits.world._ranking import SAMPLE, ranking

SAMPLE_NAME = "mslr-sample"
DATA_SETS = (SAMPLE_NAME, "ranking:PATH", "cellular:PATH")


@lru_cache(maxsize=8)
def load(data: str, dimension: int) -> Dataset:
    """Load a data set by name; the result is cached.

    Args:
        data: `mslr-sample`, `ranking:PATH` or `cellular:PATH`.
        dimension: The dimension of the actions of a ranking file; ignored for cellular data.

    Returns:
        The data set.

    Raises:
        InvalidValue: If the name is unknown or the file cannot be read.

    Example:
        >>> from dpbandits.world import load
        >>> data = load("mslr-sample", 5)
        >>> data.name
        'mslr-sample'
    """
    kind, _, path = data.partition(":")
    if data == SAMPLE_NAME:
        return ranking(SAMPLE, dimension=dimension, name=SAMPLE_NAME)
    if kind == "ranking" and path:
        return ranking(Path(path), dimension=dimension)
    if kind == "cellular" and path:
        return cellular(_table(Path(path)))
    raise InvalidValue("data", repr(data), "one of " + ", ".join(DATA_SETS))


def _table(path: Path) -> Path:
    """Return the file itself, or the only table in a folder."""
    if not path.is_dir():
        return path
    tables = sorted([*path.glob("*.csv"), *path.glob("*.csv.gz")])
    if len(tables) != 1:
        given = f"{path} with {len(tables)} tables"
        raise InvalidValue("data", given, "a folder with one .csv or .csv.gz file")
    return tables[0]
