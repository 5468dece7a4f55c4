"""`StudyOutcome`: how a study ended. The ServerApp writes it to a file for the command that started it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_NAME = "outcome.json"


@dataclass(frozen=True, kw_only=True)
class StudyOutcome:
    """How a study ended.

    Attributes:
        ended: Whether the study reached its horizon or was closed. If not, an error stopped it, and it can be
            continued.
        told: A sentence for people.
    """

    ended: bool
    told: str

    def write(self, folder: Path) -> None:
        """Write the outcome to a folder. A reader sees the complete file or none.

        Args:
            folder: The folder.
        """
        new = folder / f"{_NAME}.new"
        new.write_text(json.dumps(asdict(self)), encoding="utf-8")
        new.replace(folder / _NAME)

    @staticmethod
    def read(folder: Path) -> StudyOutcome | None:
        """Return the outcome in a folder; None if there is none.

        Args:
            folder: The folder.
        """
        path = folder / _NAME
        return StudyOutcome(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    @staticmethod
    def forget(folder: Path) -> None:
        """Delete the outcome of an earlier run, if there is one.

        Args:
            folder: The folder.
        """
        (folder / _NAME).unlink(missing_ok=True)
