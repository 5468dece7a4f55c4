"""Structured logs: one JSON object per line. Only the fields in `_FIELDS` are written.

So a reward, token, report, pseudonym or address does not get into the log by mistake: none of these has a
field, and every message is a fixed word. `told` is the only field with free text: the text of an error that
dpbandits raises on purpose (errors.py), or a note. It may quote an error reply of the shuffler.

Of equal warnings at most ten per minute are written. The next one says how many were left out (`left_out`).
"""

from __future__ import annotations

import errno
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import TextIO

_FIELDS = (
    *("method", "route", "status", "took", "phase", "attempt", "state", "kind", "at", "told", "where"),
    *("count", "left_out"),
)
_EQUAL = 10  # equal lines per minute
_KINDS = 1000  # the largest number of different lines that are counted


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the time, the level, the event and the listed fields as JSON.

        A record of another library has the name of its logger in place of the message, and the type of the
        error.
        """
        ours = record.name.startswith("dpbandits")
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "event": record.getMessage() if ours else record.name,
        }
        if not ours and record.exc_info and record.exc_info[1] is not None:
            line["kind"] = _kind(record.exc_info[1])
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps(line, default=str)


def _kind(error: BaseException) -> str:
    """Return the type of an error and the name of its number, for example `OSError EMFILE`."""
    name = type(error).__name__
    number = errno.errorcode.get(error.errno or 0) if isinstance(error, OSError) else None
    return name if number is None else f"{name} {number}"


class FewEqualLines(logging.Filter):
    """Leaves out warnings and errors that repeat, and says how many it has left out.

    Args:
        clock: Returns the time in seconds; tests pass their own.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[tuple[object, ...], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write a record."""
        if record.levelno < logging.WARNING:
            return True
        ours = record.name.startswith("dpbandits")
        key = (record.name, record.getMessage() if ours else "", getattr(record, "kind", ""))
        began, count = self._seen.get(key, (self._clock(), 0))
        if self._clock() - began >= 60:
            if count > _EQUAL:
                record.left_out = count - _EQUAL
            began, count = self._clock(), 0
        if len(self._seen) >= _KINDS:
            self._seen.clear()
        self._seen[key] = (began, count + 1)
        return count < _EQUAL


def configure_logs(*, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs to one stream as JSON lines.

    The messages of other libraries may contain private data. So only the name of their logger is written, and
    only for warnings and errors.

    Args:
        level: The lowest level of the records of dpbandits, for example `DEBUG` to log every request.
        stream: Where to write; by default standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(FewEqualLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("dpbandits").setLevel(level)
