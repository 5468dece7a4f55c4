"""The examples of the gallery run, and print what their pages say."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from dpbandits.privacy import MECHANISMS

ROOT = Path(__file__).parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "gallery").glob("*.md") if page.stem != "index")
# Numbers may move a little from version to version; `python -m docs.figures.examples` writes the pages again.
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")
ELSEWHERE = ("insurance",)  # tests/examples/test_rand_insurance.py


def _ran(page: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, str, str]:
    """Run the program of a page; return its result, what it printed and what the page says."""
    text = page.read_text(encoding="utf-8")
    (name,) = re.findall(r"^    python examples/(\w+)\.py", text, re.MULTILINE)
    (expected,) = re.findall(r"It prints:\n\n```text\n(.*?)```", text, re.DOTALL)
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        result = importlib.import_module(name).main([])
    return result, shown.getvalue(), expected


@pytest.mark.parametrize("name", [page.stem for page in PAGES if page.stem not in ELSEWHERE])
def test_an_example_prints_what_its_page_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        _, shown, expected = _ran(ROOT / "docs" / "gallery" / f"{name}.md", monkeypatch)
    finally:
        for module in [own for own, one in sys.modules.items() if _from_examples(one)]:
            del sys.modules[module]
        if "one-bit" in MECHANISMS:
            MECHANISMS.remove("one-bit")
    assert _words(shown) == _words(expected)
    assert _numbers(shown) == pytest.approx(_numbers(expected), rel=0.1, abs=0.02)


def test_another_output_than_that_of_the_page_is_found() -> None:
    page = "lead       0.052 over 14 per month [-0.093, 0.197]\n"
    assert _words(page) != _words(page.replace("14 per", "16 years per"))
    assert _numbers(page) != pytest.approx(_numbers(page.replace("0.197", "0.25")), rel=0.1, abs=0.02)


def _words(text: str) -> str:
    return NUMBER.sub("N", text)


def _numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in NUMBER.findall(text)]


def _from_examples(module: object) -> bool:
    return str(getattr(module, "__file__", "")).startswith(str(ROOT / "examples"))


def test_every_page_of_the_gallery_has_a_picture_and_its_program() -> None:
    index = (ROOT / "docs" / "gallery" / "index.md").read_text(encoding="utf-8")
    assert len(PAGES) == 7
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert re.findall(r"!\[[^]]+\]\(\.\./images/[\w-]+\.png\)", text)
        assert re.findall(r"\]\(\.\./\.\./examples/\w+\.py\)", text)
        assert f"({page.name})" in index
