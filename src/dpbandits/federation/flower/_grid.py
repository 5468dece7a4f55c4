"""`FlowerGrid`: a Flower grid behind the interface that the driver of a study needs."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

log = logging.getLogger("dpbandits.federation")

_PULL_SECONDS = 0.5


class FlowerGrid:
    """The nodes of a Flower grid that have the key of a site (implements `dpbandits.federation.Grid`).

    Anybody who reaches the port of a SuperLink may register a key there. So nodes with other keys are
    ignored.

    Args:
        grid: Flower's grid.
        keys: The public keys of the sites in PEM, by the names of the sites.
    """

    def __init__(self, grid: Any, keys: Mapping[str, bytes]) -> None:
        self._grid = grid
        self._names = {_without_breaks(key): name for name, key in keys.items()}
        self._nodes: dict[str, int] = {}

    @property
    def expected(self) -> int:
        """How many sites have a key."""
        return len(self._names)

    def sites(self) -> list[str]:
        """Return the names of the sites that have a connected node."""
        found = [(_without_breaks(node.public_key), node.node_id) for node in self._grid.get_nodes()]
        self._nodes = {self._names[key]: number for key, number in found if key in self._names}
        return sorted(self._nodes)

    def ask(self, requests: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
        """Send one message to each node, and pull replies until all arrived or the time is over."""
        from flwr.app import ConfigRecord, Message, RecordDict

        known = [name for name in requests if name in self._nodes]
        messages = [
            Message(
                RecordDict({"request": ConfigRecord({"body": requests[name]})}), self._nodes[name], "query"
            )
            for name in known
        ]
        pushed = zip(self._grid.push_messages(messages), known, strict=True)
        waiting = {number: name for number, name in pushed if number}
        replies, end = dict[str, bytes](), time.monotonic() + seconds
        while waiting and time.monotonic() < end:
            for reply in self._grid.pull_messages(list(waiting)):
                name = waiting.pop(reply.metadata.reply_to_message_id, None)
                body = None if name is None else _body(reply)
                if name is not None and body is not None:
                    replies[name] = body
            if waiting:
                time.sleep(_PULL_SECONDS)
        return replies


def _body(reply: Any) -> bytes | None:
    """Return the bytes of a reply; None if the node failed, or if the message is not a reply of a site."""
    if reply.has_error():
        log.warning("a node failed: %s", str(reply.error.reason)[:500])
        return None
    try:
        body = reply.content["reply"]["body"]
    except KeyError:
        return None
    return body if isinstance(body, bytes) else None


def _without_breaks(key: bytes) -> bytes:
    return b"".join(key.split())
