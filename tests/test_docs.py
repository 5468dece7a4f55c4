"""The guides name files, functions and pages that exist."""

from __future__ import annotations

import ast
import functools
import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
PACKAGES = "|".join(one.name for one in (ROOT / "src" / "dpbandits").iterdir() if one.is_dir())
CITED = re.compile(rf"(?<![\w/])(?:src/dpbandits/)?((?:{PACKAGES})/[\w/]*\w\.py)(?:: ([\w.]+)`)?")
OTHERS = re.compile(r"`?((?:tests|benchmarks|examples)/[\w/]*\w\.(?:py|ipynb))")
QUOTED = re.compile(r"`([\w./-]*\w\.py)\b[^`\n]*`")
FILES = {
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in ("src", "docs", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
}
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
    quoted = QUOTED.findall(text) if page.is_relative_to(ROOT / "docs") else []
    missing += [name for name in quoted if not any(one.endswith(f"/{name}") for one in FILES)]
    linked = [name for name in LINK.findall(text) if not _generated(page.parent / name)]
    return missing + [name for name in linked if not (page.parent / name).exists()]


def _generated(path: Path) -> bool:
    """Return whether a page is made when the site is built; the build checks links to it (test_site.py)."""
    inside = os.path.relpath(path, ROOT / "docs" / "reference")
    return inside.split("/")[0] in ("api", "commands", "http")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    assert _missing(page.read_text(encoding="utf-8"), page) == []


def _unmapped(text: str, package: Path, *, modules: bool = True) -> list[str]:
    """Return the modules and packages in a folder that a map, the block after its name, does not have."""
    block = re.search(r"(?:^ {4,}.*\n)+", text.split(f"{package.name}/`:\n\n")[-1], flags=re.MULTILINE)
    named = {*re.findall(r"(?<![\w/])\w+(?:/|\.py)", block[0] if block else "")}
    parts = [one.name if one.suffix else f"{one.name}/" for one in package.iterdir() if one.name[:2] != "__"]
    return sorted({one for one in parts if one.endswith("/") or (modules and one.endswith(".py"))} - named)


def test_the_maps_have_every_module_and_package() -> None:
    text, source = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), ROOT / "src" / "dpbandits"
    for name in ("privacy", "protocol", "service"):
        assert f"`{name}/`:\n" in text
        assert _unmapped(text, source / name) == [], name
    for page, modules in (("docs/architecture.md", True), ("CONTRIBUTING.md", False)):
        tree = (ROOT / page).read_text(encoding="utf-8").split("    src/dpbandits/\n", 1)[1]
        assert _unmapped(tree, source, modules=modules) == [], page
    assert "_learner.py" in _unmapped(text.replace("_learner.py  ", "_learning.py "), source / "protocol")


def test_a_wrong_name_is_found() -> None:
    text = "`accounting/_nothing.py`, `protocol/_learner.py: nothing`, [a](nowhere.md), benchmarks/nothing.py"
    assert len(_missing(text, ROOT / "docs" / "index.md")) == 4


# A figure is a number of at least four digits, without zeros at its end: 151,868 or 0.4823, and not 2,000.
FIGURE = re.compile(r"(?<![\w.,/:])(?:\d[\d,]*\d(?:\.\d+)?|\d?\.\d+)(?![\w:/])")


@functools.cache
def _figures(text: str) -> frozenset[str]:
    return frozenset(one for one in FIGURE.findall(text) if _is_figure(one))


def _is_figure(number: str) -> bool:
    """Return whether a number is a figure: not a year, port, size, round number, or power of two."""
    digits = number.replace(",", "")
    whole = int(digits) if digits.isdigit() else 0
    power = whole > 0 and (whole & (whole - 1) == 0 or whole & (whole + 1) == 0)
    written = "." in number or "," in number
    return written and not power and len(digits.replace(".", "").strip("0")) >= 4


def _paragraphs(path: Path) -> list[str]:
    """The paragraphs of a page, and the rows of its tables, without code."""
    text = re.sub(r"^ *```.*?^ *```$", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    parts = [part for part in re.split(r"\n\s*\n", text) if not part.startswith("    ")]
    return [line for part in parts for line in (part.splitlines() if "|---" in part else [part])]


def _repeated(pages: dict[str, list[str]]) -> list[str]:
    """Return text that states a figure of another page's table, and rows that share two figures with it.

    If one of the two places has a link to the other page, nothing is repeated.
    """
    rows = {name: [part for part in parts if part.startswith("|")] for name, parts in pages.items()}
    return [
        f"{name}: {part[:60]} is in a table of {other}"
        for name, parts in pages.items()
        for part in parts
        if _figures(part)
        for other, own in rows.items()
        if other != name and other not in part
        for row in own
        if name not in row and len(_figures(part) & _figures(row)) >= (2 if part.startswith("|") else 1)
    ]


def test_no_figure_of_a_table_is_stated_twice() -> None:
    pages = {page.name if page.name != "index.md" else str(page): _paragraphs(page) for page in PAGES}
    pages.pop("CHANGELOG.md")  # it tells what was measured at the time
    assert (
        sum(len(_figures(part)) for parts in pages.values() for part in parts if part.startswith("|")) > 200
    )
    assert _repeated(pages) == []


def test_a_figure_that_is_stated_twice_is_found() -> None:
    table = ["| a | 151,868 | 2,000 | .4823 |"]
    assert _repeated({"a.md": table, "b.md": ["It loses 151,868 of 2,000."]}) != []
    assert _repeated({"a.md": table, "b.md": ["It loses 151,868 ([benchmarks](a.md#x)) of 2,000."]}) == []
    assert _repeated({"a.md": table, "b.md": table}) != []


def test_every_picture_is_drawn_by_a_program_and_shown_on_a_page() -> None:
    drawing = [*(ROOT / "docs" / "figures").glob("*.py"), ROOT / "tests" / "service" / "screenshots.py"]
    programs = "".join(path.read_text(encoding="utf-8") for path in drawing)
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for picture in (ROOT / "docs" / "images").glob("*.png"):
        own = picture.stem.replace("-", "_")
        drawn = picture.name in programs or f'"{own}"' in programs or picture.stem.startswith("dashboard-")
        assert drawn, picture.name
        assert picture.name in pages or picture.stem.startswith("dashboard-"), picture.name
