"""Follow docs/start/five-minutes.md literally in a fresh clone, and print how long each step took.

python docs/five_minutes.py        (or: make five-minutes)
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 300  # seconds


def main() -> int:
    """Clone the repository, run each block of the page, and compare the total with five minutes."""
    page = (ROOT / "docs" / "start" / "five-minutes.md").read_text(encoding="utf-8")
    steps = re.findall(r"^## (\d\. .+?)\n(.*?)(?=^## )", page, re.DOTALL | re.MULTILINE)
    total = 0.0
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "dpbandits"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for title, text in steps:
            script = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
            started = time.perf_counter()
            ran = subprocess.run(["bash", "-e", "-c", script], cwd=clone, check=False)
            seconds = time.perf_counter() - started
            total += seconds
            print(f"{title}: {seconds:.1f} s", flush=True)
            if ran.returncode:
                print(f"the step failed with status {ran.returncode}")
                return 1
    print(f"in total: {total:.0f} s of {LIMIT} s")
    return 0 if total <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
