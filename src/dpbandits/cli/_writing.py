"""Write JSON to a file, or to standard output for `-`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dpbandits.errors import InvalidValue


def check_writable(path: str | None) -> None:
    """Check the path of `--json` before the long work begins.

    Raises:
        InvalidValue: The folder does not exist.
    """
    if path not in (None, "-") and not Path(str(path)).parent.is_dir():
        raise InvalidValue("json", path, "a path in a folder that exists, or -")


def write_document(document: Any, path: str | None) -> None:
    """Write a document as indented JSON; do nothing if `path` is None."""
    if path is None:
        return
    text = msgspec.json.format(msgspec.json.encode(document)).decode()
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")
