"""The option `--workers`: how many processes run at a time."""

from __future__ import annotations

import argparse
from typing import Any

from dpbandits._checks import whole
from dpbandits.cli._parser import add_value, whole_number


def add_workers_option(group: Any) -> None:
    """Add `--workers`."""
    add_value(group, "--workers", whole_number, "W", "processes at a time (default: one per core)")


def workers_of(options: argparse.Namespace) -> int:
    """The value of `--workers`; by default the number of cores that this process may use."""
    if options.workers is not None:
        return whole(1, workers=options.workers)
    from joblib import cpu_count  # slow to import, and not needed for --help

    return int(cpu_count())
