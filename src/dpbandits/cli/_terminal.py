"""The console and the progress bar: text and tables on standard output, progress on standard error."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def console(width: int) -> Console:
    """Standard output, with this width if it is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def progress_bar(doing: str, unit: str) -> Progress:
    """A bar that disappears when the work is done. It prints nothing if standard error is not a terminal."""
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    errors = Console(stderr=True)
    return Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal)
