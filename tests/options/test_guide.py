"""The examples of docs/options.md run, and print what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "options.md").read_text(encoding="utf-8")
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n(?:(?!```)[^#])*?:\n\n```\n(.*?)```)?", PAGE, re.DOTALL)


def test_the_examples_run_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    compared = 0
    for code, expected in BLOCKS:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(code, scope)
        if expected:
            assert shown.getvalue() == expected
            compared += 1
    assert compared == 4
    assert len(BLOCKS) == 7
    assert (tmp_path / "study.html").stat().st_size > 2000
    assert scope["found"].best == "student"  # type: ignore[attr-defined]
    assert scope["s"].over  # type: ignore[attr-defined]


def test_the_example_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "choose" in block]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plans.csv").write_text(
        "name,price,network\nbasic,10,red\nplus,15,blue\nmax,29,red\nmini,5,blue\n", encoding="utf-8"
    )
    scope: dict[str, object] = {"rate": lambda name, rng: len(name) + rng.uniform(-1, 1)}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, scope)
    assert {"basic", "plus", "max", "mini"} == {one.option for one in scope["found"].options}  # type: ignore[attr-defined]
    assert len([line for line in code.splitlines() if line.strip()]) <= 5
