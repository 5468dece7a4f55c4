"""Engines: the processes that compute the runs of a sweep, on this machine or on a cluster.

On every engine, joblib distributes the runs and returns each result as soon as it is available. The engine
affects neither the results nor the checkpoint: a sweep that began on one engine can continue on another.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from signal import SIG_IGN, SIGINT, signal
from threading import current_thread, main_thread
from typing import Any
from urllib.parse import urlsplit

from dpbandits._checks import one_of, whole
from dpbandits.errors import InvalidValue

_PACKAGES = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
BACKENDS = tuple(_PACKAGES)
_SECONDS_TO_CONNECT = 10.0


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Workers that have started.

    Attributes:
        backend: The joblib backend: its name, or an instance.
        slots: How many runs the workers compute at a time.
        queued: How many runs the workers have at a time. If this is more than `slots`, a worker begins its
            next run without waiting for the main process.
        losses: The errors that mean that the worker of a run was lost. A run itself does not raise them.
        ends: The errors that mean that the whole cluster was lost.
    """

    backend: Any
    slots: int
    queued: int
    losses: tuple[type[BaseException], ...]
    ends: tuple[type[BaseException], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Engine:
    """Where the runs of a sweep are computed.

    Attributes:
        backend: `loky` for processes on this machine, `dask` for a Dask cluster, or `ray` for a Ray cluster.
        address: The address of the running cluster. None starts workers on this machine, and ends them with
            the sweep.

    Raises:
        InvalidValue: The backend is unknown, or is `loky` and has an address.

    Example:
        >>> from dpbandits.simulation import Engine
        >>> Engine(backend="dask", address="tcp://10.0.0.5:8786").local
        False
    """

    backend: str = "loky"
    address: str | None = None

    def __post_init__(self) -> None:
        one_of(BACKENDS, backend=self.backend)
        if self.address is not None and self.backend == "loky":
            raise InvalidValue("address", self.address, "none with backend loky: it runs on this machine")

    @property
    def local(self) -> bool:
        """Whether runs are computed by processes of this machine that joblib starts."""
        return self.backend == "loky"

    def check(self) -> None:
        """Check that the package of the backend is installed, and that the address accepts connections.

        Raises:
            InvalidValue: The package is missing, or the address cannot be reached.
        """
        if find_spec(_PACKAGES[self.backend]) is None:
            remedy = f"an installed {self.backend}: pip install '.[{self.backend}]' in a clone of dpbandits"
            raise InvalidValue("backend", self.backend, remedy)
        if self._place is not None:
            try:
                socket.create_connection(self._place, timeout=_SECONDS_TO_CONNECT).close()
            except OSError as error:
                raise self.unreachable(error) from None

    @cached_property
    def _place(self) -> tuple[str, int] | None:
        """The host and the port of the address; None if it lacks one of them, such as `auto`."""
        if self.address is None:
            return None
        parts = urlsplit(self.address if "://" in self.address else f"//{self.address}")
        try:
            return (parts.hostname, parts.port) if parts.hostname and parts.port else None
        except ValueError as error:  # the port is not a number, or too large
            raise self.unreachable(error) from None

    def unreachable(self, error: BaseException) -> InvalidValue:
        """Return the error for an address at which the cluster cannot be used.

        Args:
            error: Why it cannot be used.
        """
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__
        return InvalidValue("address", self.address, f"a running {self.backend} cluster ({reason})")

    @contextmanager
    def open(self, workers: int | None) -> Iterator[Pool]:
        """Start workers or connect to a cluster, and disconnect at the end.

        Args:
            workers: How many runs to compute at a time. None means 1 with loky, and as many as the cluster
                can compute otherwise.

        Yields:
            The workers.

        Raises:
            InvalidValue: The package of the backend is missing, or the cluster cannot be reached.
        """
        if workers is not None:
            whole(1, workers=workers)
        self.check()
        if self.local:
            from joblib.externals.loky.process_executor import BrokenProcessPool  # slow to import

            slots = workers or 1
            yield Pool(backend="loky", slots=slots, queued=2 * slots, losses=(BrokenProcessPool,))
            return
        from dpbandits.simulation import _clusters

        with _clusters.OPENERS[self.backend](self, workers) as pool:
            yield pool


@contextmanager
def ignoring_interrupts() -> Iterator[None]:
    """Start workers that ignore Ctrl-C. The main process stops them, so they print no tracebacks."""
    if current_thread() is not main_thread():
        yield
        return
    before = signal(SIGINT, SIG_IGN)  # processes that are started now inherit this
    try:
        yield
    finally:
        signal(SIGINT, before)
