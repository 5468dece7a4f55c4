"""Looks up known vulnerabilities of the packages in deploy/requirements.lock with pip-audit.

    pip install pip-audit
    python deploy/audit.py

It exits with status 1 if a package has a known vulnerability. Without a network, or with a package index that
has no data about vulnerabilities, packages cannot be looked up. Then it says how many, and exits with status
0: pip-audit itself reports "no known vulnerabilities" in that case.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

_LOCK = Path(__file__).parent / "requirements.lock"


def looked_up(lock: Path) -> list[dict[str, Any]]:
    """Return what pip-audit says about each package; nothing if it cannot look any up.

    Args:
        lock: A requirements file with the version and the digests of each package.
    """
    options = ["--disable-pip", "--require-hashes", "--format=json", "--progress-spinner=off"]
    command = [sys.executable, "-m", "pip_audit", f"--requirement={lock}", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except ValueError:  # pip-audit is not installed, or its data cannot be reached
        print((done.stderr.strip().splitlines() or ["pip-audit said nothing"])[-1])
        return []
    return found


def told(packages: list[dict[str, Any]]) -> int:
    """Print the vulnerabilities and what was not looked up; return the exit status.

    Args:
        packages: What `looked_up` returns.
    """
    known = [one for one in packages if "skip_reason" not in one]
    bad = [(one, flaw) for one in known for flaw in one["vulns"]]
    for one, flaw in bad:
        fixed = ", ".join(flaw["fix_versions"]) or "no version"
        print(f"{one['name']} {one['version']}: {flaw['id']}, fixed in {fixed}")
    skipped = len(packages) - len(known)
    if not known:
        print("no package could be looked up: the data about vulnerabilities is not available here")
    else:
        more = f"; {skipped} could not be looked up" if skipped else ""
        print(f"{len(known)} packages looked up, {len(bad)} known vulnerabilities{more}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(told(looked_up(_LOCK)))
