"""A load generator process, started and controlled by service_load.py.

    load_generator.py SETTINGS.json

It reads lines `TARGET FIRST LAST` from standard input, seals the reports of these tickets, and sends them
over as many connections as the settings say, one request at a time on each. For each line it prints one line
of JSON: the seconds from the first request to the last response, and the number of responses per status.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpbandits.protocol import Plan, decode
from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import Place, PublicKey, hashed

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def ticket(number: int) -> str:
    """Return the secret of one simulated client."""
    return f"{number:043d}"


class Sealer:
    """Builds requests as bytes, each with a sealed report."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._plan = decode(settings["plan"].encode(), Plan)
        self.plan_digest = self._plan.digest
        self._key = PublicKey.parse(settings["key"])
        self._study = settings["study"]
        mechanism = self._plan.mechanism
        assert mechanism is not None
        centre = mechanism.message.twice_centre // 2  # a report that is always in range
        self._plaintext = struct.pack(f"<{self._plan.numbers}q", *[centre] * self._plan.numbers)

    def request(self, number: int) -> bytes:
        """Return the whole request of one client."""
        secret = ticket(number)
        place = Place(study=self._study, phase=1, attempt=1, plan=self._plan.digest, pseudonym=hashed(secret))
        body = self._key.seal(self._plaintext, place, "report")
        head = (
            "POST /v1/phases/1/attempts/1/reports HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {secret}\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body


class Connection(asyncio.Protocol):
    """A connection that sends the next request when the previous one was answered."""

    def __init__(self, requests: Iterator[bytes], statuses: Counter[str]) -> None:
        self._requests = requests
        self._statuses = statuses
        self._received = b""
        self.done = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def send(self) -> None:
        """Send the next request, if any is left."""
        request = next(self._requests, None)
        if request is not None:
            self.transport.write(request)
        elif not self.done.done():
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Receive a response or a part of one."""
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and len(body) >= (int(length[1]) if length else 0):
            self._statuses[head[9:12].decode()] += 1
            self._received = b""
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        """Treat a connection that closes early as an error."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server hung up"))


async def send_all(
    requests: list[bytes], port: int, context: ssl.SSLContext | None, connections: int
) -> dict[str, Any]:
    """Send all requests over connections that are opened before the clock starts."""
    loop, statuses, waiting = asyncio.get_running_loop(), Counter[str](), iter(requests)
    opened = list[Connection]()
    for _ in range(connections):
        _, connection = await loop.create_connection(
            lambda: Connection(waiting, statuses), "127.0.0.1", port, ssl=context
        )
        opened.append(connection)
    began = time.perf_counter()
    for connection in opened:
        connection.send()
    await asyncio.gather(*(connection.done for connection in opened))
    seconds = time.perf_counter() - began
    for connection in opened:
        connection.transport.close()
    return {"seconds": seconds, "statuses": dict(statuses)}


def main() -> None:
    """Process one line after another."""
    settings = json.loads(Path(sys.argv[1]).read_text())
    sealer = Sealer(settings)
    certificates = settings["certificates"]
    context = None if certificates is None else trusting(Path(certificates))
    for line in sys.stdin:
        target, first, last = line.split()
        requests = [sealer.request(number) for number in range(int(first), int(last))]
        port, connections = settings["ports"][target], settings["connections"]
        print(json.dumps(asyncio.run(send_all(requests, port, context, connections))), flush=True)


if __name__ == "__main__":
    main()
