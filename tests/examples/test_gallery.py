"""The pages of the gallery are complete. tests/test_page_code.py runs their programs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "gallery").glob("*.md") if page.stem != "index")


def test_every_page_of_the_gallery_has_a_picture_and_its_program() -> None:
    index = (ROOT / "docs" / "gallery" / "index.md").read_text(encoding="utf-8")
    assert len(PAGES) == 7
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"!\[[^]]+\]\(\.\./images/[\w-]+\.png\)", text)
        assert re.findall(r"\]\(\.\./\.\./examples/\w+\.py\)", text)
        assert f"({page.name})" in index
