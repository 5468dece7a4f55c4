"""`Outcome`: how a study ended, which the ServerApp tells the command that started it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "outcome.json"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a study ended.

    Attributes:
        ended: Whether it reached its horizon or was closed. If not, it stopped and can go on.
        told: A sentence for people.
    """

    ended: bool
    told: str

    def write(self, folder: Path) -> None:
        """Write it to a folder. A reader sees all of it or nothing."""
        new = folder / f"{_NAME}.new"
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.replace(folder / _NAME)

    @staticmethod
    def read(folder: Path) -> Outcome | None:
        """Return the outcome in a folder; None if there is none."""
        path = folder / _NAME
        return Outcome(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    @staticmethod
    def forget(folder: Path) -> None:
        """Delete the outcome of an earlier run, which may have stopped."""
        (folder / _NAME).unlink(missing_ok=True)
