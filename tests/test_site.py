"""The documentation site builds without warnings, has no broken links, and documents every public name.

`make docs` builds it with the same function. The tests that need Zensical build it once.
"""

from __future__ import annotations

import ast
import importlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from docs._site import _api, _commands, _http
from docs._site.__main__ import build
from docs._site._blocks import blocks_of
from docs._site._complete import missing
from docs._site._links import problems
from docs._site._staging import ROOT, place, written
from numpy.typing import NDArray

import dpbandits
from dpbandits import _plots, errors, vdaf
from dpbandits.federation.flower._versions import FLOWER
from dpbandits.service.wire import ERROR_CODES

NAMES = _api.public_names()
FIRST_PERSON = r"\b(?:I (?:am|have|had|was|did|think|tried|found)|[Mm]y|[Ww]e|[Oo]urs?)\b"


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site, with warnings as errors."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert build(folder) == []
    return folder


def test_the_site_has_every_page_search_and_both_colour_schemes(site: Path) -> None:
    for page in written():
        assert list(site.rglob(f"{page.stem.lower()}.html")) or page.stem == "index", page
    home = (site / "index.html").read_text(encoding="utf-8")
    assert 'data-md-color-scheme="slate"' in home
    assert 'data-md-color-scheme="default"' in home
    assert "choose" in (site / "search.json").read_text(encoding="utf-8")
    for name in NAMES:
        text = (site / "reference" / name.page).with_suffix(".html").read_text(encoding="utf-8")
        assert name.name in text
        assert "Example" in text


def test_the_navigation_has_every_page() -> None:
    """The navigation of the reference, with these two pages, is added when the site is built."""
    configuration = (ROOT / "docs" / "zensical.toml").read_text(encoding="utf-8")
    pages = {place(page) for page in written()}
    assert set(re.findall(r'"([\w/-]+\.md)"', configuration)) == pages - {"reference/index.md", "protocol.md"}


def test_a_broken_link_an_anchor_and_another_host_are_found(site: Path, tmp_path: Path) -> None:
    shutil.copy(site / "design.html", tmp_path / "design.html")
    found = problems(tmp_path)  # without its scripts, pictures and the other pages
    assert any("does not exist" in line for line in found)
    (tmp_path / "one.html").write_text(
        '<a href="design.html#nowhere">x</a><script src="https://example.org/a.js"></script>',
        encoding="utf-8",
    )
    (tmp_path / "one.css").write_text("@import 'other.css';", encoding="utf-8")
    found = problems(tmp_path)
    assert [line for line in found if line.startswith("one")] == [
        "one.html: design.html#nowhere has no such anchor",
        "one.html: loads https://example.org/a.js from another host",
        "one.css: loads something from another host",
    ]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.module}.{name.name}")
def test_every_public_name_is_documented(name: _api.Name) -> None:
    assert missing(name) == []


def _imported() -> dict[tuple[str, str], str]:
    """Return the names that pages and examples tell people to import, each with a place."""
    code = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")}
    for path in ("protocol/toy_reward_model.py", "privacy/toy_trust_model.py"):  # two guides show these files
        code[path] = (ROOT / "tests" / path).read_text(encoding="utf-8")
    for page in [*written(), ROOT / "README.md"]:
        code |= {one.where: one.text for one in blocks_of(page, ROOT) if one.language == "python"}
    return {
        (node.module, alias.name): where
        for where, text in code.items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and re.fullmatch(r"dpbandits(\.[a-z]\w*)*", node.module or "")
        for alias in node.names
    }


def test_every_name_that_a_page_or_an_example_imports_has_a_page() -> None:
    documented = {id(name.value) for name in NAMES}
    imported = _imported()
    assert len(imported) > 40
    values = {name: getattr(importlib.import_module(name[0]), name[1]) for name in imported}
    alias = type(NDArray[Any])
    missing_pages = {
        name: imported[name]
        for name, value in values.items()
        if id(value) not in documented and not isinstance(value, alias)
    }
    assert missing_pages == {}


def test_a_name_without_documentation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def poor(first: int, second: int) -> int:
        """Add."""
        if first < 0:
            raise ValueError("first")
        return first + second

    monkeypatch.setattr(dpbandits, "poor", poor, raising=False)
    assert missing(_api.Name("dpbandits", "poor")) == [
        "poor: an example",
        "poor: first in Args",
        "poor: second in Args",
        "poor: Returns",
        "poor: ValueError in Raises",
    ]


def test_the_references_have_every_option_and_every_request() -> None:
    plan = _commands.page("plan")
    assert "`--participants N`" in plan
    assert "## Study" in plan
    assert "### " in _commands.page("keys") or "## keys codes" in _commands.page("keys")
    coordinator = _http.page("coordinator")
    for path in _http.described("coordinator")["paths"]:
        assert f" {path}" in coordinator
    assert "### ErrorReply" in coordinator


def test_every_error_has_a_remedy() -> None:
    page = (ROOT / "docs" / "understand" / "errors.md").read_text(encoding="utf-8")
    classes = [name for name, one in vars(errors).items() if isinstance(one, type)]
    assert [name for name in classes if f"`{name}`" not in page] == []
    assert [code for code in ERROR_CODES if f"`{code}`" not in page] == []


def test_every_package_has_a_page() -> None:
    packages = {
        one.name for one in (ROOT / "src" / "dpbandits").iterdir() if (one / "__init__.pyi").is_file()
    }
    assert packages - {name.split(".")[0] for name in _api.PACKAGES} == {"experiments", "service"}


def test_versions_on_the_pages_are_those_of_the_code() -> None:
    cited = (ROOT / "docs" / "research" / "index.md").read_text(encoding="utf-8")
    assert f"version = {{{dpbandits.__version__}}}" in cited
    assert f"version: {dpbandits.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"(version {dpbandits.__version__.rpartition('.')[0]})" in _text("choose/when-not.md")
    assert f"({dpbandits.__version__})" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    static = ROOT / "src" / "dpbandits" / "service" / "dashboard" / "static"
    (htmx,) = re.findall(r'version:"([\d.]+)"', (static / "htmx.min.js").read_text(encoding="utf-8"))
    (uplot,) = re.findall(r"\(v([\d.]+)\)", (static / "uPlot.iife.min.js").read_text(encoding="utf-8")[:200])
    assert f"[htmx](https://htmx.org) {htmx} " in _text("dashboard.md")
    assert f"uPlot) {uplot} " in _text("dashboard.md")
    assert f"version of Flower than {FLOWER}" in _text("federation.md")
    (draft,) = re.findall(r"draft-irtf-cfrg-vdaf-(\d+)", vdaf.__doc__ or "")
    assert f"draft {draft}:" in _text("verified-sums.md")


def _text(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


def test_plots_have_the_colours_of_the_dashboard() -> None:
    folder = ROOT / "src" / "dpbandits" / "service" / "dashboard" / "static"
    style = (folder / "app.css").read_text(encoding="utf-8").splitlines()[0]
    colours = dict(re.findall(r"--(\w+): (#\w+)", style))
    own = {
        name: getattr(_plots, name.upper()) for name in ("ink", "soft", "line", "tint", "accent", "second")
    }
    assert own == {name: colours[name] for name in own}


@pytest.mark.parametrize("page", written(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_is_in_the_first_person(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert re.findall(FIRST_PERSON, text) == []
