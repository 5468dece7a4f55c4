"""Decryption of sealed reports, in a helper process under load.

Decrypting a report takes about as long as the rest of its request, and the cryptography library holds the
global interpreter lock meanwhile. If the machine has a second core, reports are therefore decrypted in a
helper process (_decryption_process.py) when at least 4 arrive in one pass of the event loop. They are sent in
batches of 16, so that the first ones do not wait for all the others. Fewer than 4 reports are decrypted in
this process, which is faster for them. If the helper process ends, all reports are decrypted in this process.
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

_WORTH = 4  # the least number of reports that are worth a message to the helper process
_AT_ONCE = 16  # reports per message

log = logging.getLogger("dpbandits.service")

Batch = list[tuple[tuple[bytes, Place, str], "asyncio.Future[bytes | None]"]]


class Opener:
    """Decrypts the reports that arrive in one event loop.

    Args:
        keys: The private key of the party.
        helper: Whether a helper process may be started; by default only if there is a second core.
    """

    def __init__(self, keys: KeyPair, *, helper: bool | None = None) -> None:
        self._keys = keys
        self._helper = _cores() > 1 if helper is None else helper
        self._passing: Batch = []
        self._asked: deque[Batch] = deque()
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None

    async def open(self, sealed: bytes, place: Place, purpose: str) -> bytes:
        """Decrypt a sealed report, as `KeyPair.open` does.

        Args:
            sealed: The ciphertext.
            place: The place that it must be bound to.
            purpose: The purpose that it must be sealed for.

        Returns:
            The plaintext.

        Raises:
            Refused: It was sealed to a different key or place, or was altered.
        """
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
        """End the helper process; reports that still wait are decrypted in this process."""
        self._helper = False
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._running is not None:
            await self._running

    def _take(self) -> None:
        """Decrypt all reports that arrived in this pass of the event loop, or send them to the helper."""
        waiting, self._passing = self._passing, []
        if len(waiting) >= _WORTH and self._helper and self._running is None:
            self._running = asyncio.create_task(self._run())
        if len(waiting) < _WORTH or self._process is None:
            self._open_here(waiting)
            return
        for start in range(0, len(waiting), _AT_ONCE):
            self._ask(self._process, waiting[start : start + _AT_ONCE])

    def _ask(self, process: Process, waiting: Batch) -> None:
        assert process.stdin is not None
        batch = [(place.info(purpose), sealed) for (sealed, place, purpose), _ in waiting]
        process.stdin.write(opener_process.framed(batch))
        self._asked.append(waiting)

    def _open_here(self, waiting: Batch) -> None:
        for (sealed, place, purpose), done in waiting:
            try:
                opened = self._keys.open(sealed, place, purpose)
            except Refused:
                opened = None
            _settle(done, opened)

    async def _run(self) -> None:
        """Start the helper process and receive its replies until it ends."""
        script = str(opener_process.__file__)
        try:
            # In a new session, Ctrl-C in a terminal does not reach the helper: it must outlive open requests.
            process = await asyncio.create_subprocess_exec(
                sys.executable, script, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, start_new_session=True
            )
        except OSError:
            log.warning("opener-not-started")
            return
        assert process.stdin is not None
        assert process.stdout is not None
        if self._helper:
            process.stdin.write(self._keys.private_bytes())
            self._process = process
        else:  # `close` was called while the process was starting
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
        if self._helper:
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
