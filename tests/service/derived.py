"""Compares the numbers that the dashboard derives from the API with the API itself."""

from __future__ import annotations

import html
import itertools
import json
import re
from typing import Any

from dpbandits.protocol import Plan, decode


def check_derived(
    pages: dict[str, str], api: dict[str, Any], report_bytes: dict[int, int] | None = None
) -> int:
    """Check charts and tables of the pages Over time and Privacy.

    Args:
        pages: The HTML of the pages, by name.
        api: The replies of `status` and `progress`, by name; with that of `results`, δ(ε) is checked.
        report_bytes: The length of one client's request body in each phase, if it is known.

    Returns:
        How many numbers were compared.
    """
    known = [one for one in api["progress"]["phases"] if one["cohort"]]
    assert known
    interval, left, clients = _charts(pages["time"])
    phases = [one["phase"] for one in known]
    assert interval["x"] == left["x"] == clients["x"] == phases
    drawn = dict(zip(interval["names"], interval["series"], strict=True))
    assert drawn["estimate"] == [one["estimated_mean"] for one in known]
    assert drawn["low"] == [one["estimated_mean"] - one["width"] for one in known]
    assert drawn["high"] == [one["estimated_mean"] + one["width"] for one in known]
    assert left["series"] == [[one["actions_left"] for one in known]]
    assert clients["series"][0] == [one["clients_asked"] for one in known]
    for one in known:
        cells = _row(pages["time"], one["phase"])
        low, high = one["estimated_mean"] - one["width"], one["estimated_mean"] + one["width"]
        assert cells[3] == f"[{low:.4g}, {high:.4g}]"
        if report_bytes is not None:
            assert cells[7] == f"{one['reports'] * report_bytes[one['phase']]:,}"
    answered = re.search(r"<span>Answered</span><b>([\d,]+)</b>", pages["privacy"])
    asked = re.search(r"<span>Clients asked</span><b>([\d,]+)</b>", pages["privacy"])
    assert answered is not None
    assert asked is not None
    assert answered[1] == f"{sum(one['reports'] for one in known):,}"
    if api["status"]["failed_attempts"] == 0:
        assert int(asked[1].replace(",", "")) == known[-1]["clients_asked"] + api["status"]["joined"]
    curves = _check_curves(pages["privacy"], api["results"]) if "results" in api else 0
    return 6 * len(known) + 2 + curves


def _check_curves(page: str, results: dict[str, Any]) -> int:
    """Compare δ(ε) with that of the mechanism in each plan of the results."""
    if not results["guarantee"]:
        assert _charts(page) == []
        return 0
    (curve,) = _charts(page)
    lines = dict(zip(curve["names"], curve["series"], strict=True))
    for one in results["phases"]:
        mechanism, shown = (
            decode(json.dumps(one["plan"]).encode(), Plan).asked_mechanism,
            lines[f"phase {one['phase']}"],
        )
        first, second = (float(mechanism.event.delta(x)) for x in curve["x"][:2])
        assert shown[:2] == [first, min(first, second)]
        assert all(a is None or b is None or a >= b for a, b in itertools.pairwise(shown))
        whole = curve["x"].index(results["guarantee"]["epsilon"])
        assert shown[whole] is None or shown[whole] <= results["guarantee"]["delta"]
    return 4 * len(results["phases"])


def _charts(page: str) -> list[Any]:
    return [json.loads(html.unescape(one)) for one in re.findall(r'data-chart="([^"]*)"', page)]


def _row(page: str, phase: int) -> list[str]:
    found = re.search(rf'<tr data-phase="{phase}">(.*?)</tr>', page)
    assert found is not None
    return [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", found[1])]
