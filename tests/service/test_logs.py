from __future__ import annotations

import io
import json
import logging

from dpbandits.service.shared._logs import JsonLines


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
