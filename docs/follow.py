"""Follow a page literally, and print how long each step took.

python docs/follow.py five-minutes     docs/start/five-minutes.md, in a fresh clone (make five-minutes)
python docs/follow.py deploying        the steps of docs/deploying.md, in an empty folder (make steps)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from docs._site._blocks import blocks_of, commands  # noqa: E402

LIMITS = {"five-minutes": 300, "deploying": 240}  # seconds


def five_minutes() -> list[tuple[str, str]]:
    """Return the title and the commands of each step of the first page."""
    page = ROOT / "docs" / "start" / "five-minutes.md"
    titles = re.findall(r"^## (\d\. .+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [(title, _commands(page, title)) for title in titles]


def deploying() -> list[tuple[str, str]]:
    """Return all steps of a deployed study as one, because they share variables and background processes."""
    return [("Step by step", _commands(ROOT / "docs" / "deploying.md", "Step by step"))]


def _commands(page: Path, heading: str) -> str:
    """Return the commands of a section of a page."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first = lines.index(f"## {heading}")
    last = next((at for at in range(first + 1, len(lines)) if lines[at].startswith("## ")), len(lines))
    own = [block for block in blocks_of(page, ROOT) if first < block.line <= last]
    return "\n".join(commands(block) for block in own if block.language in ("sh", "console"))


def follow(name: str, folder: Path) -> int:
    """Run the commands of a page in a folder; return 1 if one failed or all took too long."""
    steps = five_minutes() if name == "five-minutes" else deploying()
    own = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    total = 0.0
    for title, script in steps:
        started = time.perf_counter()
        ran = subprocess.run(["bash", "-e", "-c", script], cwd=folder, env=own, check=False)
        seconds = time.perf_counter() - started
        total += seconds
        print(f"{title}: {seconds:.1f} s", flush=True)
        if ran.returncode:
            print(f"the step failed with status {ran.returncode}")
            return 1
    print(f"in total: {total:.0f} s of {LIMITS[name]} s")
    return 0 if total <= LIMITS[name] else 1


def main() -> int:
    """Follow the page that the command line names."""
    if len(sys.argv) != 2 or sys.argv[1] not in LIMITS:
        print(f"page: got {' '.join(sys.argv[1:])}, expected one of {', '.join(LIMITS)}")
        return 2
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        if sys.argv[1] == "five-minutes":
            at /= "dpbandits"
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(at)], check=True)
        return follow(sys.argv[1], at)


if __name__ == "__main__":
    sys.exit(main())
