"""What the tests of all commands share."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

import pytest

from dpbandits.cli import main


def check_refused(arguments: Sequence[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Bad input: status 2, one line on standard error that says so, and nothing on standard output."""
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
    """A command in a session of its own that hears Ctrl-C, even if whoever runs the tests ignores it."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
