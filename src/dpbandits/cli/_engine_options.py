"""The options `--workers`, `--backend` and `--address`: where runs are computed, and how many in parallel."""

from __future__ import annotations

import argparse
from typing import Any

from dpbandits._checks import whole
from dpbandits.cli._parser import add_choice, add_value, whole_number
from dpbandits.simulation import BACKENDS, Engine


def add_engine_options(group: Any) -> None:
    """Add the three options."""
    workers = "runs in parallel (default: one per core of this machine, or as many as a cluster can compute)"
    add_value(group, "--workers", whole_number, "W", workers)
    backends = "what computes the runs: processes on this machine (loky), Dask or Ray"
    add_choice(group, "--backend", BACKENDS, backends, Engine().backend)
    address = (
        "a running Dask scheduler, such as tcp://10.0.0.5:8786, or Ray cluster, such as 10.0.0.5:6379 "
        "(default: start workers on this machine)"
    )
    add_value(group, "--address", str, "ADDRESS", address)


def engine_of(options: argparse.Namespace) -> Engine:
    """The engine that the options name.

    Raises:
        InvalidValue: The backend is not installed or takes no address, or nothing listens at the address.
    """
    engine = Engine(backend=options.backend, address=options.address)
    engine.check()
    return engine


def workers_of(options: argparse.Namespace) -> int | None:
    """The value of `--workers`; by default the number of cores of this process, or None with `--address`."""
    if options.workers is not None:
        return whole(1, workers=options.workers)
    if options.address is not None:
        return None
    from joblib import cpu_count  # slow to import, and not needed for --help

    return int(cpu_count())
