"""Decrypt sealed reports without blocking the event loop.

Decrypting a report takes about as long as the rest of its request, and the library that does it keeps
Python's lock. So with a second core, reports are decrypted in a helper process under load: when at least 4
arrive in one pass of the event loop (_decryption_process.py). They go there 16 at a time, so that the first
ones need not wait for all the others. Fewer than 4 are decrypted here, which is faster for them. If the
helper process ends, everything is decrypted here.
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
from dpbandits.service.wire import KeyPair, Place, _decryption_process as opener_process, unreadable

_WORTH = 4  # reports that are worth a message to the process
_AT_ONCE = 16

log = logging.getLogger("dpbandits.service")

Waiting = list[tuple[tuple[bytes, Place, str], "asyncio.Future[bytes | None]"]]


class Opener:
    """Of one event loop. `beside`: whether a process may be started; by default, if it has a core."""

    def __init__(self, keys: KeyPair, *, beside: bool | None = None) -> None:
        self._keys = keys
        self._beside = _cores() > 1 if beside is None else beside
        self._passing: Waiting = []
        self._asked: deque[Waiting] = deque()
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None

    async def open(self, sealed: bytes, place: Place, purpose: str) -> bytes:
        """The plaintext, if it was sealed to this key for this place; as `KeyPair.open`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[bytes | None] = loop.create_future()
        if not self._passing:
            loop.call_soon(self._take)
        self._passing.append(((sealed, place, purpose), done))
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
        batch = [(place.info(purpose), sealed) for (sealed, place, purpose), _ in waiting]
        process.stdin.write(opener_process.framed(batch))
        self._asked.append(waiting)

    def _open_here(self, waiting: Waiting) -> None:
        for (sealed, place, purpose), done in waiting:
            try:
                opened = self._keys.open(sealed, place, purpose)
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
