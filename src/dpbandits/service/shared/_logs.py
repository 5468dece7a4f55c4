"""Structured logs: one JSON object a line. Only fields that are listed here are ever written.

So a reward, a token, a report, a pseudonym or an address cannot get in by mistake: none of them is listed,
and messages are fixed words.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TextIO

_FIELDS = ("method", "route", "status", "took", "phase", "attempt", "state", "kind", "at", "told", "where")


class JsonLines(logging.Formatter):
    """A line for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The level, the fixed word and the listed fields."""
        ours = record.name.startswith("dpbandits")
        line = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "event": record.getMessage() if ours else record.name,
        }
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps(line, default=str)


def configure_logs(*, level: str = "INFO", stream: TextIO | None = None) -> None:
    """To standard error. Of libraries, whose words are not ours, only that something happened is told."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("dpbandits").setLevel(level)
