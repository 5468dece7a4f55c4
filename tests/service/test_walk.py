"""The path of one report through the code matches docs/architecture.md and stays below a maximum length."""

from __future__ import annotations

import re
from pathlib import Path

from .walk import Walk, walks

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
MOST_HOPS = 16
MOST_SHAPES = 9


def test_the_page_lists_the_functions_and_counts_the_shapes_of_one_report() -> None:
    report, cohort = walks()
    section = PAGE.read_text(encoding="utf-8").split("## The way of one report")[1].split("\n## ")[0]
    told = re.findall(r"^\|[^|]*\| `([\w.]+)` \|", section, flags=re.MULTILINE)
    assert _names(report) == told
    assert f"{len(report.hops)} functions receive" in section
    assert f"{len(report.shapes)} shapes on the way" in section
    assert len(report.hops) <= MOST_HOPS
    assert len(report.shapes) <= MOST_SHAPES
    assert _names(report)[0] == "ClientCore.report"
    assert {"analyze", "tell"} <= {*_names(cohort)}


def _names(walk: Walk) -> list[str]:
    return [hop.split(": ")[1] for hop in walk.hops]
