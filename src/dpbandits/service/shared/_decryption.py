"""Decrypt sealed reports without blocking the event loop.

Decrypting one report takes about as long as everything else in a request, and the library that does it holds
Python's global interpreter lock. So on a machine with a second core, the reports that arrive together in one
pass of the event loop are decrypted in a helper process (_decryption_process.py). They go there in small
batches, so that the first results arrive before the last report is decrypted. A few reports are decrypted in
this process, because the round trip would take longer. If the helper process ends, all are decrypted here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque

import msgspec

from dpbandits.errors import Refused
from dpbandits.service.wire import Envelope, KeyPair, _decryption_process as opener_process, unreadable

_WORTH = 4  # reports that are worth a message to the process
_AT_ONCE = 16

log = logging.getLogger("dpbandits.service")

Waiting = list[tuple[Envelope, "asyncio.Future[bytes | None]"]]


class Opener:
    """Of one event loop. `beside`: whether a process may be started; by default, if it has a core."""

    def __init__(self, keys: KeyPair, *, beside: bool | None = None) -> None:
        self._keys = keys
        self._beside = _cores() > 1 if beside is None else beside
        self._passing: Waiting = []
        self._asked: deque[Waiting] = deque()
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None

    async def open(self, envelope: Envelope) -> bytes:
        """The plaintext, if it was sealed to this key for its place."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes | None] = loop.create_future()
        if not self._passing:
            loop.call_soon(self._take)
        self._passing.append((envelope, done))
        opened = await done
        if opened is None:
            raise unreadable()
        return opened

    async def close(self) -> None:
        """End the process; whatever is still asked is opened here."""
        self._beside = False
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._running is not None:
            await self._running

    def _take(self) -> None:
        """All that came in this pass."""
        waiting, self._passing = self._passing, []
        if len(waiting) >= _WORTH and self._beside and self._running is None:
            self._running = asyncio.create_task(self._run())
        if len(waiting) < _WORTH or self._process is None:
            self._open_here(waiting)
            return
        for start in range(0, len(waiting), _AT_ONCE):
            self._ask(self._process, waiting[start : start + _AT_ONCE])

    def _ask(self, process: Process, waiting: Waiting) -> None:
        assert process.stdin is not None
        batch = [(envelope.place.info(envelope.purpose), envelope.sealed) for envelope, _ in waiting]
        process.stdin.write(opener_process.framed(batch))
        self._asked.append(waiting)

    def _open_here(self, waiting: Waiting) -> None:
        for envelope, done in waiting:
            try:
                opened = self._keys.open(envelope.sealed, envelope.place, envelope.purpose)
            except Refused:
                opened = None
            _settle(done, opened)

    async def _run(self) -> None:
        """The life of the process."""
        script = str(opener_process.__file__)
        try:
            # In a session of its own, an interrupt from a terminal does not reach it.
            process = await asyncio.create_subprocess_exec(
                sys.executable, script, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
            )
        except OSError:
            log.warning("opener-not-started")
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if self._beside:
            process.stdin.write(self._keys.private_bytes())
            self._process = process
        else:  # closed before it was there
            process.stdin.close()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer(process.stdout)
        self._ended()
        process.stdin.close()
        await process.wait()

    def _ended(self) -> None:
        self._process = None
        while self._asked:
            self._open_here(self._asked.popleft())
        if self._beside:
            log.warning("opener-ended")

    async def _answer(self, source: asyncio.StreamReader) -> None:
        size = int.from_bytes(await source.readexactly(opener_process.PREFIX), "big")
        answers = msgspec.msgpack.decode(await source.readexactly(size), type=list[bytes | None])
        for (_, done), opened in zip(self._asked.popleft(), answers, strict=True):
            _settle(done, opened)


def _settle(done: asyncio.Future[bytes | None], opened: bytes | None) -> None:
    if not done.done():
        done.set_result(opened)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
