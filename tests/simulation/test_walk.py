"""The functions that docs/architecture.md lists are the ones that a reward passes in the simulator."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import dpbandits
from dpbandits.simulation import Setting, run_once

PAGE = Path(__file__).parents[2] / "docs" / "architecture.md"
PACKAGE = Path(dpbandits.__file__).parent


def _listed() -> list[tuple[str, str]]:
    section = PAGE.read_text(encoding="utf-8").split("## The path of one reward")[1].split("\n## ")[0]
    return re.findall(r"^\| (\S+\.py) \| `([\w.]+)` \|", section, flags=re.MULTILINE)


def _called(setting: Setting) -> list[tuple[str, str]]:
    """Return the functions of the package that a run calls, in the order of their first return."""
    returned: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _value: Any) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event == "return" and PACKAGE in path.parents:
            returned.setdefault((str(path.relative_to(PACKAGE)), code.co_qualname))

    sys.setprofile(note)
    try:
        run_once(setting, 1)
    finally:
        sys.setprofile(None)
    return list(returned)


def test_a_run_calls_the_ten_functions_that_the_page_lists() -> None:
    listed = _listed()
    assert len(listed) == 10
    setting = Setting.of(trust="central", actions=30, dimension=3, horizon=200, schedule="exponential")
    called = _called(setting)
    assert [one for one in listed if one not in called] == []
    # A caller returns after what it calls, so those that hand the data on are left out of the order.
    order = [called.index(one) for one in listed if one[1] not in ("Everyone.simulate", "simulate", "tell")]
    order.remove(called.index(listed[3]))  # `simulate_groups` returns after the mechanism
    assert order == sorted(order)
