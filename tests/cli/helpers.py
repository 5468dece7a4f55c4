"""Helpers for the tests of the commands."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from dpbandits.cli import main


def check_refused(arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Check the response to bad input: status 2, one line on standard error, nothing on standard output."""
    try:
        status = main(arguments)
    except SystemExit as end:
        status = int(end.code or 0)
    shown = capsys.readouterr()
    assert status == 2
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def interrupt(command: Sequence[str], file: Path) -> tuple[str, str]:
    """Run a command until it has written 20 kB to a file, press Ctrl-C, and return what it printed.

    The command runs in its own session and handles SIGINT, even if the test process ignores it.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not file.exists() or file.stat().st_size < 20_000):
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # a terminal signals the whole group
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    return out, err
