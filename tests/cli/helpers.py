"""Helpers for the tests of the commands."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

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


def interruptible(command: Sequence[str]) -> subprocess.Popen[str]:
    """Start a command in its own session that handles SIGINT, even if the test process ignores it."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
