"""The public names of the package, and the examples of its docstring and the README."""

from __future__ import annotations

import re
from pathlib import Path

import dpbandits

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_what_is_exported_exists_and_is_sorted() -> None:
    assert all(hasattr(dpbandits, name) for name in dpbandits.__all__)
    assert dpbandits.__all__ == sorted(dpbandits.__all__)


def test_the_example_of_the_docstring_runs() -> None:
    doc = dpbandits.__doc__ or ""
    lines = [line[4:] for line in doc.splitlines() if line.startswith("    ")]
    code = "\n".join(lines).replace("10**6", "10**4")
    scope: dict[str, object] = {}
    exec(code, scope)
    trace = scope["trace"]
    assert isinstance(trace, dpbandits.RunTrace)
    assert trace.rounds == 10**4
    assert trace.guarantee is not None
    assert trace.guarantee.delta <= 1e-6


def test_the_files_that_the_readme_links_to_exist() -> None:
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 15
    assert [link for link in links if not (root / link).exists()] == []
