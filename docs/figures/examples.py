"""The pictures of the gallery, and what its programs print: each is made by an example itself."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from pathlib import Path

from docs.figures._saving import IMAGES

EXAMPLES = Path(__file__).parents[2] / "examples"
DRAWN = (
    *("base_station", "prices", "feature_flag", "million_actions", "audited_mechanism", "under_attack"),
    "rand_insurance",  # its output is in docs/real-data.md
)


def draw() -> None:
    """Run each example with its own sizes, and write its picture and its output into its page."""
    sys.path.insert(0, str(EXAMPLES))
    for name in DRAWN:
        page = name.replace("_", "-")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            importlib.import_module(name).main(["--plot", str(IMAGES / f"{page}.png")])
        print(printed.getvalue())
        path = IMAGES.parent / "gallery" / f"{page}.md"
        if not path.exists():
            continue
        block = re.compile(r"(It prints:\n\n```text\n).*?```", re.DOTALL)
        text = block.sub(lambda found, new=printed: f"{found[1]}{new.getvalue()}```", path.read_text("utf-8"))
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    draw()
