"""The views of the parties: every byte that coordinator and shuffler receive, send, log or store is searched.

No raw average of a client may be among them, in any encoding. In split mode, a distinguishing game on the
bytes on the wire compares what each party can open for two clients with opposite rewards.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dpbandits.privacy import TRUST_MODELS, SecureNoise
from dpbandits.protocol import Plan, add_up, ask, nothing, respond_with_averages, share_message
from dpbandits.service.client import AsyncClient, ClientCore, Consent, _client as client_module, take_part
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import AsyncTransport, RoleTokens, Timing
from dpbandits.service.shared._logs import JsonLines
from dpbandits.service.shuffler import shuffler_app
from dpbandits.service.wire import (
    KeyPair,
    PartyTerms,
    Pins,
    Place,
    SignedTerms,
    hashed,
    split_shares,
    terms_of,
)
from dpbandits.service.wire._binding import TAG
from dpbandits.service.wire._sealing import OVERHEAD
from dpbandits.storage._sql import SqlStore

from .helpers import MODELS, Deployment, small_study
from .live import served
from .processes import free_port


class Recording:
    """Records every byte that is received (path, headers, body) and every byte that is sent."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.seen = bytearray()
        self.told = bytearray()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen += repr(scope.get("path", "")).encode() + b"".join(
            b"".join(h) for h in scope.get("headers", ())
        )

        async def recorded() -> Message:
            message = await receive()
            self.seen += message.get("body", b"")
            return message

        async def answered(message: Message) -> None:
            self.told += b"".join(b"".join(h) for h in message.get("headers", ())) + message.get("body", b"")
            await send(message)

        await self._app(scope, recorded, answered)


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_no_raw_average_is_in_any_byte_that_anybody_has_seen(
    trust: str, mode: str | None, tmp_path: Path
) -> None:
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("dpbandits")
    logger.addHandler(handler)
    logger.setLevel("DEBUG")
    try:
        raw, secrets, apps = _studied(trust, mode, tmp_path)
    finally:
        logger.removeHandler(handler)
        logger.setLevel("NOTSET")
    stored = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    told = b"".join(bytes(app.told) for app in apps)
    everywhere = stored + stream.getvalue().encode() + b"".join(bytes(app.seen) for app in apps) + told
    assert len(raw) == 18
    assert len(everywhere) > 10_000
    for average in raw:
        for form in _forms(average):
            assert form not in everywhere
    assert told.count(b'"plan_digest"') >= 6
    quiet = stored + stream.getvalue().encode() + told
    for secret in secrets:  # tokens and tickets are received, but never stored, logged or sent
        assert secret.encode() in everywhere
        assert secret.encode() not in quiet
    pseudonyms = [hashed(secret).encode() for secret in secrets]
    assert not any(name in stream.getvalue().encode() + told for name in pseudonyms)
    assert b'"route"' in stream.getvalue().encode()


def _forms(average: float) -> list[bytes]:
    packed = [struct.pack(order + "d", average) for order in "<>"]
    return [*packed, repr(average).encode(), repr(average)[:12].encode()]


def _studied(trust: str, mode: str | None, tmp_path: Path) -> tuple[list[float], list[str], list[Recording]]:
    """Run one phase over HTTP; return the clients' known averages, their tickets, and all recorded bytes."""
    port = free_port()
    deployed = Deployment(
        study=small_study(trust),
        mode=mode,
        shuffler_url=f"http://127.0.0.1:{port}",
        store=SqlStore(f"sqlite:///{tmp_path / 'coordinator.sqlite'}"),
        shuffler_store=SqlStore(f"sqlite:///{tmp_path / 'shuffler.sqlite'}"),
        timing=Timing(report_seconds=60, poll_seconds=0.02),
    )
    deployed.advance()
    codes = deployed.coordinator.operator.new_codes(6).codes
    deployed.run(lambda t: deployed.coordinator.operator.keep_codes(t, codes))
    rng, raw, cores = np.random.default_rng(8), list[float](), list[ClientCore]()
    apps = [Recording(coordinator_app(deployed.coordinator, RoleTokens()))]
    if deployed.link is not None:
        apps.append(Recording(shuffler_app(deployed.link.shuffler, RoleTokens())))

    def averages(plan: Plan) -> list[float]:
        mine = rng.uniform(-0.9, 0.9, len(plan.support)).tolist()
        raw.extend(mine)
        return mine

    async def everybody(url: str) -> None:
        async with AsyncTransport() as transport:
            for _ in codes:
                consent = Consent(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)
                pins = Pins(terms=deployed.context.name)
                cores.append(ClientCore(url=url, consent=consent, pins=pins))
            parts = [
                take_part(AsyncClient(core, transport), code, averages)
                for core, code in zip(cores, codes, strict=True)
            ]
            playing = asyncio.to_thread(_play_when_full, deployed)
            *answers, _ = await asyncio.gather(*parts, playing)
            assert all(answers)

    _with_served(apps, lambda url: asyncio.run(everybody(url)), deployed, port)
    return raw, [core.memory.ticket for core in cores], apps


def _with_served(apps: list[Recording], work: Callable[[str], None], deployed: Deployment, port: int) -> None:
    with served(apps[0]) as url:  # type: ignore[arg-type]
        if len(apps) == 1:
            work(url)
        else:
            with served(apps[1], port):  # type: ignore[arg-type]
                work(url)
                deployed.clock.time += 61
                _wait(lambda: deployed.run(deployed.coordinator.operator.status).releases == 1)


def _play_when_full(deployed: Deployment) -> None:
    _wait(lambda: deployed.run(deployed.coordinator.actuator.schedule).state == "playing")
    schedule = deployed.run(deployed.coordinator.actuator.schedule)
    deployed.run(lambda t: deployed.coordinator.actuator.rounds(t, 1, 1, schedule.rounds))


def _wait(there: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not there():
        assert time.monotonic() < until
        time.sleep(0.02)


BODIES = 400


def _bodies(plan: Plan, keys: tuple[KeyPair, KeyPair], averages: list[float]) -> list[tuple[bytes, str]]:
    """Return what a client sends, BODIES times, made by the client's own code."""
    bodies = list[tuple[bytes, str]]()
    shuffler, coordinator = (PartyTerms(url="https://nowhere", key=str(one.public)) for one in keys)
    terms = terms_of(
        small_study("shuffle"), run="0" * 32, coordinator=coordinator, shuffler=shuffler, mode="split"
    )
    agreed = client_module.Agreed(terms=terms, signed=SignedTerms.of(terms))
    for _ in range(BODIES):
        core = ClientCore(url="https://nowhere", plan=plan, agreed=agreed)
        core.memory.phase = core.memory.attempt = 1
        bodies.append((next(core.report(averages)).content, hashed(core.memory.ticket)))
    return bodies


def _view(
    plan: Plan, keys: KeyPair, purpose: str, bodies: list[tuple[bytes, str]], half: int
) -> np.ndarray[Any, Any]:
    """Return the bits of everything that a party can open."""
    assert plan.mechanism is not None
    size = 8 * len(plan.support) + OVERHEAD  # the coordinator's share also has a tag at its end
    rows = list[list[int]]()
    for body, name in bodies:
        assert len(body) == 2 * size + TAG
        place = Place(study=plan.study, phase=1, attempt=1, plan=plan.digest, pseudonym=name)
        opened = keys.open(body[size:] if half else body[:size], place, purpose)
        residues = share_message(plan).unpack([opened[: -TAG if half else None]])[0].tolist()
        rows.append([(value >> bit) & 1 for value in residues for bit in range(plan.mechanism.sum_bits)])
    return np.array(rows, dtype=np.float64)


def _told_apart(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether the frequency of a bit differs by 7 deviations; by chance, below 1e-6 over all bits."""
    return bool(np.any(np.abs(one.mean(axis=0) - other.mean(axis=0)) > 7 * np.sqrt(0.5 / BODIES)))


def _game(plan: Plan) -> tuple[bool, bool]:
    """Whether a party can distinguish a client of the highest from one of the lowest rewards."""
    keys = (KeyPair.new(), KeyPair.new())
    high, low = (_bodies(plan, keys, [sign] * len(plan.support)) for sign in (1.0, -1.0))
    shuffler = [_view(plan, keys[0], "share-shuffler", side, 0) for side in (high, low)]
    coordinator = [_view(plan, keys[1], "share-coordinator", side, 1) for side in (high, low)]
    return _told_apart(*shuffler), _told_apart(*coordinator)


def test_in_split_mode_neither_partys_view_depends_on_a_clients_rewards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = ask(small_study("shuffle").begin())
    assert _game(plan) == (False, False)

    def leaky(plan: Plan, payload: bytes) -> tuple[bytes, bytes]:
        """Split with a deliberate error: the mask's high bits are 0, so the other share has the report's."""
        one, _ = split_shares(plan, payload)
        mask = np.frombuffer(one, dtype="<i8") & 1
        sums = np.array(add_up(plan, nothing(plan), [payload]).sums, dtype=np.int64)
        modulus = 1 << plan.mechanism.sum_bits  # type: ignore[union-attr]
        return mask.astype("<i8").tobytes(), ((sums - mask) % modulus).astype("<i8").tobytes()

    monkeypatch.setattr(client_module, "split_shares", leaky)
    assert _game(plan) == (False, True)


def test_the_game_is_played_on_reports_that_differ() -> None:
    """Without shares, the reports of the two clients can be distinguished."""
    plan = ask(small_study("shuffle").begin())
    message = plan.asked_mechanism.message
    high, low = (
        message.unpack([respond_with_averages(plan, [sign] * len(plan.support), SecureNoise()).payload]).sum()
        for sign in (1.0, -1.0)
    )
    assert high > low
