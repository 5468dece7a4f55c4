"""Logs have only the listed fields, and equal warnings are limited."""

from __future__ import annotations

import errno
import io
import json
import logging
from typing import Any

from dpbandits.service.shared._logs import FewEqualLines, JsonLines


def test_only_listed_fields_are_ever_written() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in ("dpbandits.test", "another.library"):
        logger = logging.Logger(name)
        logger.addHandler(handler)
        logger.warning("event", extra={"route": "/v1/tasks", "token": "secret", "reward": 0.25})
    logger.warning("told of %s", "1.2.3.4")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [set(line) for line in lines] == [{"time", "level", "event", "route"}] * 2 + [
        {"time", "level", "event"}
    ]
    assert [line["event"] for line in lines] == ["event", "another.library", "another.library"]
    assert "secret" not in stream.getvalue()
    assert "1.2.3.4" not in stream.getvalue()


def test_the_number_of_excluded_reports_is_written() -> None:
    record = logging.makeLogRecord({"name": "dpbandits.service", "msg": "reports-excluded", "count": 3})
    assert json.loads(JsonLines().format(record))["count"] == 3


def test_equal_warnings_are_limited_and_counted_with_their_reason() -> None:
    now, stream = [0.0], io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(FewEqualLines(lambda: now[0]))
    ours, other = logging.Logger("dpbandits.test"), logging.Logger("asyncio")
    ours.addHandler(handler)
    other.addHandler(handler)

    def written() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in stream.getvalue().splitlines()]
        stream.truncate(stream.seek(0))
        return lines

    full = OSError(errno.EMFILE, "too many open files of 1.2.3.4")
    for _ in range(500):
        other.error("accept() out of system resource", exc_info=full)
        ours.info("request")
    ours.warning("unreachable")
    lines = written()
    assert [line["event"] for line in lines].count("asyncio") == 10
    assert len(lines) == 10 + 500 + 1
    assert {line["kind"] for line in lines if line["event"] == "asyncio"} == {"OSError EMFILE"}
    now[0] += 61
    other.error("accept() out of system resource", exc_info=full)
    (line,) = written()
    assert (line["event"], line["left_out"]) == ("asyncio", 490)
