"""Check the paths of files that a command will write, and write JSON to a file or to standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from dpbandits.errors import InvalidValue


def check_writable(path: str | None, option: str = "json") -> None:
    """Check the path of an option that also accepts `-`, before the long work begins.

    Args:
        path: The path; None if the option was not given.
        option: The name of the option.

    Raises:
        InvalidValue: The folder does not exist.
    """
    if path is not None and path != "-" and not Path(path).parent.is_dir():
        raise InvalidValue(option, path, "a path in a folder that exists, or -")


def check_folder(**named: Path) -> None:
    """Check that the folder of a path exists, before the long work begins. The keyword names the option.

    Raises:
        InvalidValue: The folder does not exist.
    """
    ((option, path),) = named.items()
    if not path.parent.is_dir():
        raise InvalidValue(option, path, "a path in a folder that exists")


def write_document(document: Any, path: str | None) -> None:
    """Write a document as indented JSON: to a file, or to standard output if `path` is `-`.

    If `path` is None, do nothing.
    """
    if path is None:
        return
    text = msgspec.json.format(msgspec.json.encode(document)).decode()
    if path == "-":
        print(text)
    else:
        Path(path).write_text(text + "\n", encoding="utf-8")
