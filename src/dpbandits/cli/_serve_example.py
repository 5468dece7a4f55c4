"""`dpbandits serve --example`: run a whole deployed study in one process, with TLS and simulated clients.

`serving` and `free_port` are also used by the other commands that serve in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import uvicorn

from dpbandits.actions import Actions
from dpbandits.errors import DpbanditsError, Unreachable
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Plan, Schedule, Study
from dpbandits.service.actuator import Actuator, play_all
from dpbandits.service.client import AsyncClient, ClientCore, Consent, take_part
from dpbandits.service.coordinator import Context, Coordinator, coordinator_app
from dpbandits.service.shared import (
    AsyncTransport,
    Listening,
    RoleTokens,
    Timing,
    Transport,
    self_signed,
    server_for,
)
from dpbandits.service.wire import KeyPair, ResultsReply, hashed, new_secret
from dpbandits.storage import open_store
from dpbandits.world import Instance, Population

COHORTS = (40, 40, 40)


def show_example() -> int:
    """Run the example study and print its progress."""
    actions = Actions.generate("sphere", count=100, dimension=4, rng=1)
    study = Study(
        actions=actions,
        horizon=100_000,
        privacy=PrivacyRequest(trust="central", epsilon=5.0, delta=1e-6),
        schedule=Schedule(cohorts=COHORTS, first_length=200, growth=8),
    )
    instance = Instance.draw(actions, np.random.default_rng(4))
    with tempfile.TemporaryDirectory() as directory:
        _run(study, instance, Path(directory))
    return 0


def _run(study: Study, instance: Instance, directory: Path) -> None:
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    self_signed(certificate, key)
    listening = Listening(port=free_port(), certificate=certificate, key=key)
    token = new_secret()
    context = Context(study=study, keys=KeyPair.new(), timing=Timing(report_seconds=60, poll_seconds=0.5))
    coordinator = Coordinator(context, open_store(f"sqlite:///{directory / 'study.sqlite'}"))
    codes = coordinator.operator.new_codes(sum(COHORTS)).codes
    coordinator.writer.run("codes", lambda t: coordinator.operator.keep_codes(t, codes))
    print("A whole deployed study in this process, with simulated clients and rewards; no files are kept.")
    print(f"coordinator at {listening.url} over TLS: trust central, ε = 5, δ = 1e-6")
    print(f"{len(codes)} clients enrol; {COHORTS[0]} are asked after each of the first {len(COHORTS)} phases")
    app = coordinator_app(coordinator, RoleTokens(hashes={"actuator": hashed(token)}))
    with serving(server_for(app, listening)), Transport(certificates=certificate) as transport:
        actuator = Actuator(listening.url, token, transport)
        playing = threading.Thread(target=play_all, args=(actuator, _tell_play))
        playing.start()
        accepted = asyncio.run(_clients(listening.url, certificate, codes, _rewards(study, instance)))
        playing.join()
        results = coordinator.writer.run("read", coordinator.operator.results)
    print(f"{accepted} reports were accepted, one per client; only their noisy means are stored")
    _tell_results(results, instance)


def _tell_results(results: ResultsReply, instance: Instance) -> None:
    left, kept = len(results.active), "" if instance.best_action in results.active else "not "
    print(f"{left} of {instance.actions.count} actions may still be best; the true best is {kept}among them")
    stated = results.guarantee
    if stated is not None:
        holds = f"({stated.epsilon:g}, {stated.delta:.2g})-DP"
        print(f"guarantee for each client: {holds}; assumes: {stated.needs}")
    print("To run a study with your own processes, files and keys: docs/deploying.md")


def _tell_play(action: int, rounds: int) -> None:
    print(f"  actuator: plays action {action} for {rounds:,} rounds", flush=True)


async def _clients(
    url: str, certificate: Path, codes: list[str], averages: Callable[[Plan], list[float]]
) -> int:
    consent = Consent(trusts=("central",), epsilon=5.0, delta=1e-6)
    async with AsyncTransport(certificates=certificate, connections=8) as transport:
        cores = [ClientCore(url=url, consent=consent) for _ in codes]
        each = zip(cores, codes, strict=True)
        parts = (take_part(AsyncClient(core, transport), code, averages) for core, code in each)
        return sum(await asyncio.gather(*parts))


def _rewards(study: Study, instance: Instance) -> Callable[[Plan], list[float]]:
    """Return a function that draws the averages of a new simulated client at each call."""
    rng = np.random.default_rng(7)
    population = Population(instance, heterogeneity=study.heterogeneity)
    return lambda plan: population.averages(1, plan.support, plan.plays, rng)[0].tolist()


@contextlib.contextmanager
def serving(server: uvicorn.Server) -> Iterator[None]:
    """Run a server in a thread until the block ends.

    Raises:
        InvalidValue: The address cannot be used, for example because another process listens there.
        Unreachable: The server did not start within 30 seconds.
    """
    failed = list[DpbanditsError]()

    def run() -> None:
        try:
            server.run()
        except DpbanditsError as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    until = time.monotonic() + 30
    while not server.started and thread.is_alive() and time.monotonic() < until:
        time.sleep(0.02)
    try:
        if not server.started:
            raise failed[0] if failed else Unreachable("the server did not start")
        yield
    finally:
        server.should_exit = True
        thread.join()


def free_port() -> int:
    """Return a port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
