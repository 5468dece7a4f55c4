"""The path of one report through the code matches docs/architecture.md and stays below a maximum length."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .walk import Walk, walk

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST_STEPS = 16
MOST_SHAPES = 9


@pytest.fixture(scope="module")
def found() -> Walk:
    return walk()


@pytest.fixture(scope="module")
def section() -> str:
    return PAGE.read_text(encoding="utf-8").split("## The path of one report")[1].split("\n## ")[0]


def test_the_table_has_one_row_per_step_from_the_averages_to_the_eliminated_actions(
    found: Walk, section: str
) -> None:
    rows = re.findall(r"^\| (\d+) \|[^|]*\| (\S+) \| `([\w.]+)` \|", section, flags=re.MULTILINE)
    assert [f"{file}: {function}" for _, file, function in rows] == found.steps
    assert [int(number) for number, *_ in rows] == list(range(1, len(found.steps) + 1))
    assert found.steps[0].endswith("ClientCore.report")
    assert found.steps[-1].endswith("survivors")
    assert f"There are {len(found.steps)} steps." in section
    assert len(found.steps) <= MOST_STEPS


def test_the_page_names_every_other_function_that_gets_the_data(found: Walk, section: str) -> None:
    for kind, functions in (("helpers", found.helpers), ("checks", found.checks)):
        told = re.search(rf"^- (\d+) {kind} [^:]*:\n((?:    - .*\n)+)", section, flags=re.MULTILINE)
        assert told is not None
        assert re.findall(r"- `(.+)`\n", told[2]) == functions
        assert int(told[1]) == len(functions)
    assert f"call {len(found.helpers) + len(found.checks)} more functions" in section


def test_the_page_names_the_shapes(found: Walk, section: str) -> None:
    told = re.search(r"The data has (\d+) shapes on this path: (.*?)\.", section, flags=re.DOTALL)
    assert told is not None
    names = re.split(r",\s+|\s+and\s+", told[2].replace("`", ""))
    assert {"sequence of numbers" if name == "numbers" else name for name in names} == {*found.shapes}
    assert int(told[1]) == len(names) == len(found.shapes) <= MOST_SHAPES
