"""Functions and modules of the package are short."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def _lengths(text: str) -> Iterator[tuple[str, int]]:
    """Yield each function with the number of its lines, without its docstring."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            documented = ast.get_docstring(node, clean=False) is not None
            docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
            yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


def test_lines_are_counted_without_the_docstring() -> None:
    assert dict(_lengths('def f():\n    """One.\n\n    Two.\n    """\n    return 1\n')) == {"f": 2}


def test_functions_have_at_most_45_lines_and_modules_400() -> None:
    found = list[str]()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found += [f"{path.name}: {name} has {lines}" for name, lines in _lengths(text) if lines > 45]
        found += [f"{path.name}: {len(text.splitlines())}"] * (len(text.splitlines()) > 400)
    assert found == []
