"""`dpbandits serve --rewards`: run the study of a file to its end in one process, with simulated clients.

The coordinator, its store, its keys and its noise are those of the study file. The rewards of the clients
come from another file, and the actuator plays nothing. The store keeps the result, so `dpbandits results`
shows it afterwards.
"""

from __future__ import annotations

import asyncio
import csv
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dpbandits._arrays import FloatArray
from dpbandits.actions import read_matrix
from dpbandits.cli._serve_example import serving
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.protocol import Plan
from dpbandits.service.actuator import Actuator, play_all
from dpbandits.service.client import AsyncClient, ClientCore, Consent, take_part
from dpbandits.service.config import CoordinatorFile
from dpbandits.service.coordinator import Coordinator, coordinator_app
from dpbandits.service.shared import AsyncTransport, RoleTokens, Transport, server_for
from dpbandits.service.wire import Pins, Terms, hashed, new_secret

_POLLS_PER_SECOND = 100  # of all clients together; more polls would keep the process busy


def rehearse(file: CoordinatorFile, path: Path) -> int:
    """Run the study of a file with one client per row of rewards, and print how many reported.

    Args:
        file: The study file.
        path: A CSV or NPZ file with the average reward of each action, one row per client. The columns of a
            CSV file may be headed by the names of the options, in any order.

    Returns:
        The exit status.

    Raises:
        InvalidValue: The file has too few rows for the study, its columns are not the actions of the study,
            or the study has begun already.
    """
    context = file.context
    rewards = _rewards(path, context.options, context.study.actions.count)
    timing = replace(context.timing, poll_seconds=max(0.2, len(rewards) / _POLLS_PER_SECOND))
    coordinator = replace(file, context=replace(context, timing=timing)).coordinator()
    if (
        coordinator.rounds.current() is not None
    ):  # clients from a file must not join a study with real clients
        coordinator.close()
        raise InvalidValue("rewards", path, "none: the store of this study file has begun already")
    study = coordinator.context.study
    needed = study.schedule.participants(study.horizon) + study.after_learning
    if len(rewards) < needed:
        coordinator.close()
        raise InvalidValue("rewards", f"{len(rewards):,} rows", f"at least {needed:,}, one per client")
    print(f"rehearsal: {len(rewards):,} clients from {path}; the study asks at most {needed:,}", flush=True)
    print(f"{_run(file, coordinator, rewards):,} reports were accepted; `dpbandits results` shows the answer")
    return 0


def _run(file: CoordinatorFile, coordinator: Coordinator, rewards: FloatArray) -> int:
    codes, token = coordinator.operator.new_codes(len(rewards)).codes, new_secret()
    coordinator.writer.run("codes", lambda t: coordinator.operator.keep_codes(t, codes))
    roles = RoleTokens(hashes={**file.roles.hashes, "actuator": hashed(token)})
    app = coordinator_app(coordinator, roles, replace(file.limits, requests_per_second=1e6, burst=10**6))
    url, trusted = file.listening.url, file.listening.certificate
    with serving(server_for(app, file.listening)), Transport(certificates=trusted) as transport:
        actuator = Actuator(url, token, transport)
        playing = threading.Thread(target=play_all, args=(actuator, lambda _action, _rounds: None))
        playing.start()
        terms, pins = coordinator.context.terms, Pins(terms=coordinator.context.name)
        cores = [ClientCore(url=url, consent=_consent(terms), pins=pins) for _ in codes]
        accepted = asyncio.run(_clients(_transport(file), cores, codes, rewards))
        playing.join()
    return accepted


def _consent(terms: Terms) -> Consent:
    return Consent(trusts=(terms.trust,), epsilon=terms.epsilon, delta=terms.delta, biased_bits=True)


def _transport(file: CoordinatorFile) -> AsyncTransport:
    """The transport of the clients. It trusts the same certificate of the shuffler as the coordinator."""
    shuffler, own = None if file.link is None else file.link.certificates, file.listening.certificate
    coordinator = {} if own is None else {file.listening.url: own}
    return AsyncTransport(certificates=shuffler, per_party=coordinator, connections=8)


async def _clients(
    shared: AsyncTransport, cores: list[ClientCore], codes: list[str], rewards: FloatArray
) -> int:
    async with shared as transport:
        each = zip(cores, codes, rewards, strict=True)
        parts = (take_part(AsyncClient(core, transport), code, _averages(row)) for core, code, row in each)
        return sum(await asyncio.gather(*parts))


def _averages(row: FloatArray) -> Callable[[Plan], list[float]]:
    return lambda plan: [float(row[action]) for action in plan.support]


def _rewards(path: Path, options: Options | None, actions: int) -> FloatArray:
    matrix = read_matrix(path)
    header = _header(path) if options is not None else []
    if options is not None and sorted(header) == sorted(options.labels):
        return matrix[:, [header.index(label) for label in options.labels]]
    if matrix.shape[1] != actions:
        expected = f"{actions}, one per action, or headed by the names of the options"
        raise InvalidValue("rewards", f"{matrix.shape[1]} columns", expected)
    return matrix


def _header(path: Path) -> list[str]:
    """Return the cells of the first line of a CSV file."""
    if path.suffix.lower() != ".csv":
        return []
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [" ".join(cell.split()) for cell in next(csv.reader(file), [])]
