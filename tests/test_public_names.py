"""The public names of the package, and the links of the README."""

from __future__ import annotations

import re
from pathlib import Path

import dpbandits

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_what_is_exported_exists_and_is_sorted() -> None:
    assert all(hasattr(dpbandits, name) for name in dpbandits.__all__)
    assert dpbandits.__all__ == sorted(dpbandits.__all__)


def test_the_files_that_the_readme_links_to_exist() -> None:
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 15
    assert [link for link in links if not (root / link).exists()] == []
