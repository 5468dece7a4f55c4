"""The public names of the package, and the examples of its docstring and the README."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import dpbandits
from dpbandits.service.config import TomlFile, study_of

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


def test_the_example_of_the_readme_prints_what_the_readme_says() -> None:
    code, printed = re.findall(r"```python\n(.*?)```\n\nIt prints:\n\n```\n(.*?)```", README, re.DOTALL)[0]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(code, {})
    assert shown.getvalue() == printed


def test_the_study_file_of_the_readme_is_read(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    (tmp_path / "actions.csv").write_text("0.9,0.1\n0.5,0.5\n0.2,0.9\n0.7,0.6\n")
    study = study_of(TomlFile(tmp_path / "study.toml"))
    assert (study.horizon, study.privacy.trust, study.privacy.epsilon) == (100_000, "central", 1.0)
    assert sum(study.schedule.cohorts or ()) == 5000


def test_the_files_that_the_readme_links_to_exist() -> None:
    root = Path(__file__).parent.parent
    links = re.findall(r"\]\(([^)#:]+)\)", README)
    assert len(links) > 15
    assert [link for link in links if not (root / link).exists()] == []
