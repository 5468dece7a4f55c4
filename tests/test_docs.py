"""The guides name files, functions and pages that exist."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
ROOMS = "|".join(one.name for one in (ROOT / "src" / "dpbandits").iterdir() if one.is_dir())
CITED = re.compile(rf"(?<![\w/])(?:src/dpbandits/)?((?:{ROOMS})/[\w/]*\w\.py)(?:: ([\w.]+)`)?")
OTHERS = re.compile(r"`?((?:tests|benchmarks|examples)/[\w/]*\w\.(?:py|ipynb))")
LINK = re.compile(r"\]\(([^)#:]+\.\w+)(?:#[\w-]+)?\)")


def _defined(path: Path) -> set[str]:
    """Return the names that a module defines, with the members of its classes as `Class.member`."""
    found = set[str]()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
            members = node.body if isinstance(node, ast.ClassDef) else []
            found |= {f"{node.name}.{one.name}" for one in members if isinstance(one, ast.FunctionDef)}
        elif isinstance(node, ast.Assign):
            found |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    return found


def _missing(text: str, page: Path) -> list[str]:
    missing = list[str]()
    for name, member in CITED.findall(text):
        path = ROOT / "src" / "dpbandits" / name
        if not path.is_file():
            missing.append(name)
        elif member and member not in _defined(path):
            missing.append(f"{name}: {member}")
    missing += [name for name in OTHERS.findall(text) if not (ROOT / name).is_file()]
    linked = [name for name in LINK.findall(text) if not _generated(page.parent / name)]
    return missing + [name for name in linked if not (page.parent / name).exists()]


def _generated(path: Path) -> bool:
    """Return whether a page is made when the site is built; the build checks links to it (test_site.py)."""
    inside = os.path.relpath(path, ROOT / "docs" / "reference")
    return inside.split("/")[0] in ("api", "commands", "http")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    assert _missing(page.read_text(encoding="utf-8"), page) == []


def test_a_wrong_name_is_found() -> None:
    text = "`privacy/_nothing.py`, `protocol/_learner.py: nothing`, [a](nowhere.md), benchmarks/nothing.py"
    assert len(_missing(text, PAGES[0])) == 4
