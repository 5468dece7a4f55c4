"""Reports decrypt to the same text with and without the helper process, even if it is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine

import msgspec
import pytest

from dpbandits.errors import Refused
from dpbandits.protocol import ask
from dpbandits.service.shared._decryption import Opener
from dpbandits.service.wire import (
    KeyPair,
    Place,
    _decryption_process as opener_process,
)

from .helpers import small_study

PLAN = ask(small_study("central").begin())
KEYS = KeyPair.new()


def _place(number: int) -> Place:
    return Place(study=PLAN.study, phase=1, attempt=1, plan=PLAN.digest, pseudonym=f"{number:064x}")


def _text(number: int) -> bytes:
    return number.to_bytes(PLAN.asked_mechanism.message.size, "big")


def _sealed(number: int, *, key: KeyPair = KEYS) -> tuple[bytes, Place, str]:
    place = _place(number)
    return key.public.seal(_text(number), place, "report"), place, "report"


def _child(opener: Opener) -> int:
    assert opener._process is not None
    return opener._process.pid


async def _started(opener: Opener) -> None:
    """Decrypt many reports until the helper process has started."""
    while opener._process is None:
        await asyncio.gather(*(opener.open(*_sealed(number)) for number in range(20)))
        await asyncio.sleep(0.01)


def _run(scenario: Callable[[Opener], Coroutine[None, None, None]], *, helper: bool = True) -> None:
    async def whole() -> None:
        opener = Opener(KEYS, helper=helper)
        try:
            await asyncio.wait_for(scenario(opener), 60)
        finally:
            await asyncio.wait_for(opener.close(), 20)

    asyncio.run(whole())


@pytest.mark.parametrize("helper", [False, True])
def test_each_is_opened_to_its_own_text_or_refused(helper: bool) -> None:
    async def scenario(opener: Opener) -> None:
        if helper:
            await _started(opener)
        stranger = KeyPair.new()
        sealed = [_sealed(n, key=KEYS if n % 7 else stranger) for n in range(100)]
        found = await asyncio.gather(*(opener.open(*one) for one in sealed), return_exceptions=True)
        for number, opened in enumerate(found):
            if number % 7:
                assert opened == _text(number)
            else:
                assert isinstance(opened, Refused)
                assert opened.reason == "unreadable"
        assert (opener._process is not None) == helper

    _run(scenario, helper=helper)


def test_few_at_a_time_need_no_process() -> None:
    async def scenario(opener: Opener) -> None:
        for number in range(20):
            assert await opener.open(*_sealed(number)) == _text(number)
        assert opener._running is None

    _run(scenario)


def test_what_a_killed_process_had_to_open_is_opened_here() -> None:
    async def scenario(opener: Opener) -> None:
        await _started(opener)
        os.kill(_child(opener), signal.SIGSTOP)  # so that it sends no reply before it is killed
        waiting = [asyncio.create_task(opener.open(*_sealed(number))) for number in range(50)]
        await asyncio.sleep(0.1)
        assert not any(task.done() for task in waiting)
        os.kill(_child(opener), signal.SIGKILL)
        assert await asyncio.gather(*waiting) == [_text(number) for number in range(50)]
        assert await asyncio.gather(*(opener.open(*_sealed(n)) for n in range(9))) == list(
            map(_text, range(9))
        )
        assert opener._process is None

    _run(scenario)


def test_where_no_process_can_be_started_all_are_opened_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    async def scenario(opener: Opener) -> None:
        for _ in range(3):
            found = await asyncio.gather(*(opener.open(*_sealed(number)) for number in range(20)))
            assert found == [_text(number) for number in range(20)]
        assert opener._process is None

    _run(scenario)


def test_who_hangs_up_does_not_mix_up_the_others() -> None:
    async def scenario(opener: Opener) -> None:
        await _started(opener)
        waiting = [asyncio.create_task(opener.open(*_sealed(number))) for number in range(50)]
        await asyncio.sleep(0)
        for task in waiting[::3]:
            task.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        for number, opened in enumerate(found):
            assert isinstance(opened, asyncio.CancelledError) if number % 3 == 0 else opened == _text(number)

    _run(scenario)


def test_the_process_ends_with_its_opener() -> None:
    pids = list[int]()

    async def scenario(opener: Opener) -> None:
        await _started(opener)
        pids.append(_child(opener))

    _run(scenario)
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_an_opener_that_is_closed_while_its_process_starts_ends_it() -> None:
    async def scenario(opener: Opener) -> None:
        await asyncio.gather(*(opener.open(*_sealed(number)) for number in range(20)))
        assert opener._running is not None
        assert opener._process is None

    _run(scenario)


def test_the_process_ends_with_its_input() -> None:
    batch = [(_place(n).info("report"), _sealed(n)[0]) for n in range(3)] + [(b"", b"no report")]
    command = [sys.executable, str(opener_process.__file__)]
    content = KEYS.private_bytes() + opener_process.framed(batch)
    ended = subprocess.run(command, input=content, capture_output=True, check=True, timeout=60)
    answers = msgspec.msgpack.decode(ended.stdout[opener_process.PREFIX :])
    assert answers == [_text(0), _text(1), _text(2), None]
    assert ended.stderr == b""
