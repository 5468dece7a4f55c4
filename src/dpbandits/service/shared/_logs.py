"""Structured logs: one JSON object per line. Only the fields that are listed here are written.

A reward, token, report, pseudonym or address therefore cannot get into the log by mistake: none of them is a
listed field, and every message is a fixed word.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TextIO

_FIELDS = ("method", "route", "status", "took", "phase", "attempt", "state", "kind", "at", "told", "where")


class JsonLines(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the time, the level, the event and the listed fields as JSON.

        Records of other libraries show the name of the logger in place of the message.
        """
        ours = record.name.startswith("dpbandits")
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "event": record.getMessage() if ours else record.name,
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps(line, default=str)


def configure_logs(*, level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send all logs to one stream as JSON lines.

    The messages of other libraries may contain private data. So only the name of their logger is written, and
    only for warnings and errors.

    Args:
        level: The lowest level of dpbandits' own records, for example `DEBUG` to log every request.
        stream: Where to write; by default standard error.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("dpbandits").setLevel(level)
