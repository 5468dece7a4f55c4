"""`python -m dpbandits` is the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dpbandits import __version__
from dpbandits.cli import main


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "dpbandits", "--version"]
    known = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (known.returncode, known.stdout) == (0, f"dpbandits {__version__}\n")


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["nonsense"])
    assert ended.value.code == 2
    assert "nonsense" in capsys.readouterr().err
