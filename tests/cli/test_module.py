"""`python -m dpbandits` is the command line."""

from __future__ import annotations

import subprocess
import sys

from dpbandits import __version__


def test_the_package_runs_as_a_module() -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dpbandits", *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    known, unknown = run("--version"), run("nonsense")
    assert (known.returncode, known.stdout) == (0, f"dpbandits {__version__}\n")
    assert unknown.returncode == 2
    assert "nonsense" in unknown.stderr
