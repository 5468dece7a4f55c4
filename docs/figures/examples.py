"""The pictures of the gallery: each is drawn by an example itself."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from docs.figures._saving import IMAGES

EXAMPLES = Path(__file__).parents[2] / "examples"
DRAWN = ("base_station", "prices", "feature_flag", "million_actions", "audited_mechanism", "under_attack")


def draw() -> None:
    """Run each example with its own sizes."""
    sys.path.insert(0, str(EXAMPLES))
    for name in DRAWN:
        module = importlib.import_module(name)
        module.main(["--plot", str(IMAGES / f"{name.replace('_', '-')}.png")])


if __name__ == "__main__":
    draw()
