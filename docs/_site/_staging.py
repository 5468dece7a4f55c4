"""Collects all pages of the site in one folder, with links that work there.

Pages keep their path below docs/. A file outside docs/ that a page links to gets a page with its text: the
site has no links to other places in the repository.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from docs._site import _api, _commands, _http

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = "reference"
_PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
_LINK = re.compile(r"(\]\()([^)\s#:]+)((?:#[^)\s]*)?\))")
_FENCE = re.compile(r"^ *(```|~~~)")
_LANGUAGES = {".py": "python", ".toml": "toml", ".json": "json", ".yaml": "yaml", ".mjs": "javascript"}


def written() -> list[Path]:
    """Return the pages that people wrote."""
    own = [path for path in DOCS.rglob("*.md") if "_site" not in path.parts]
    return sorted([*own, *(ROOT / name for name in _PROJECT)])


def place(path: Path) -> str:
    """Return where a file of the repository is on the site.

    Args:
        path: An absolute path in the repository.
    """
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    inside = path.relative_to(ROOT).as_posix()
    if inside == "README.md":
        return "index.md"
    if inside in _PROJECT:
        return f"project/{inside.lower()}"
    return f"source/{inside}/index.md" if path.is_dir() else f"source/{inside}.md"


def generated() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page of the reference."""
    for source in (_api, _commands, _http):
        for path, text in source.pages():
            yield f"{GENERATED}/{path}", text


def stage(folder: Path) -> list[str]:
    """Write all pages and pictures.

    Args:
        folder: An empty folder.

    Returns:
        The paths of the generated pages.
    """
    linked = set[Path]()
    for path in written():
        _write(folder / place(path), _with_links(path, linked))
    for other in ("images", "assets"):
        shutil.copytree(DOCS / other, folder / other)
    for path in sorted(linked):
        _write(folder / place(path), _source_page(path))
    made = dict(generated())
    for name, text in made.items():
        _write(folder / name, text)
    return list(made)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _with_links(page: Path, linked: set[Path]) -> str:
    """Return the text of a page, and add the files outside docs/ that it links to."""
    here = Path(place(page)).parent

    def moved(match: re.Match[str]) -> str:
        target = Path(os.path.normpath(page.parent / match[2]))
        if target.is_relative_to(DOCS / GENERATED) or not target.is_relative_to(ROOT):
            return match[0]
        at = place(target) if target.suffix != ".png" else target.relative_to(DOCS).as_posix()
        if at.startswith("source/"):
            linked.add(target)
        return f"{match[1]}{os.path.relpath(at, here)}{match[3]}"

    lines, inside = list[str](), False
    for line in page.read_text(encoding="utf-8").splitlines():
        inside ^= bool(_FENCE.match(line))
        lines.append(line if inside else _LINK.sub(moved, line))
    return "\n".join(lines) + "\n"


def _source_page(path: Path) -> str:
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        files = sorted(one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file())
        return f"# {name}\n\n" + "\n".join(f"-   `{one}`" for one in files) + "\n"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        return _notebook(text)
    return f"# {name}\n\n````{_LANGUAGES.get(path.suffix, 'text')}\n{text}````\n"


def _notebook(text: str) -> str:
    parts = list[str]()
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    return "\n\n".join(parts) + "\n"
