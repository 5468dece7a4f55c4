"""Saves a picture where the pages look for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

IMAGES = Path(__file__).parents[1] / "images"


def save(figure: Figure, name: str) -> None:
    """Write a picture, without a date or version, so that the same picture has the same bytes.

    Args:
        figure: The picture.
        name: The file name, without folder.
    """
    figure.savefig(IMAGES / name, metadata={"Software": None})
