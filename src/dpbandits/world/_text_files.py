"""A reader of text files, plain or gzip, whose errors name the file."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from dpbandits.errors import InvalidValue


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers, from 1; a .gz file is decompressed."""
    path = Path(path)
    if not path.is_file():
        raise InvalidValue("data", path, "an existing file")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as file:
            yield from enumerate(file, 1)
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InvalidValue("data", path, f"a readable text file ({error})") from None
