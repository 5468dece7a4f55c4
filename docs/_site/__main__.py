"""`python -m docs._site [--out out/site]`: build the site, with warnings as errors, and check its links."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from docs._site._links import problems
from docs._site._staging import DOCS, ROOT, stage


def build(out: Path) -> list[str]:
    """Build the site.

    Args:
        out: The folder of the site. Its sources are staged next to it.

    Returns:
        What is wrong with the site: warnings of the build, and broken links.
    """
    work = out.with_name(out.name + "-source")
    for folder in (work, out):
        shutil.rmtree(folder, ignore_errors=True)
    made = stage(work / "docs")
    configuration = tomllib.loads((DOCS / "zensical.toml").read_text(encoding="utf-8"))
    project = configuration["project"]
    project["nav"] += [{"Reference": _reference(made)}]
    (work / "zensical.toml").write_text(_toml({"project": project}), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    ran = subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)
    said = (ran.stdout + ran.stderr).strip()
    if ran.returncode or "arning" in said:
        return [said or f"zensical ended with status {ran.returncode}"]
    (work / "site").rename(out)
    return problems(out)


def _reference(made: list[str]) -> list[Any]:
    """Return the navigation of the generated pages."""
    return [
        {"Overview": "reference/index.md"},
        {"Python API": _api(made)},
        {"Command line": [path for path in made if path.startswith("reference/commands/")]},
        {"HTTP API": [path for path in made if path.startswith("reference/http/")]},
        {"Wire protocol": "protocol.md"},
    ]


def _api(made: list[str]) -> list[Any]:
    """Return the navigation of the Python API: one group per package."""
    groups = dict[str, list[str]]()
    for path in made:
        if path.startswith("reference/api/") and path.count("/") > 2:
            groups.setdefault(path.split("/")[2], []).append(path)
    return ["reference/api/index.md", *({name.replace("-", "."): paths} for name, paths in groups.items())]


def _toml(value: dict[str, Any]) -> str:
    """Return a table as TOML. Every value below the first level is written inline."""
    lines = list[str]()
    for name, own in value.items():
        lines += [f"[{name}]", *(f"{key} = {_inline(one)}" for key, one in own.items())]
    return "\n".join(lines) + "\n"


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def main() -> int:
    """Build the site, and print what is wrong with it."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "site", help="folder of the site")
    found = build(parser.parse_args().out.absolute())
    print("\n".join(found) if found else "the site is complete: no warnings, no broken links")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
