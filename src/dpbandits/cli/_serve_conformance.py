"""`dpbandits serve --conformance`: a live server that tests clients written in other languages.

The server does not run a study. Both parties run in this process, keep everything in memory, and listen on
loopback addresses. The terms have a version of their own, so a client takes part only if it is told that it
is being tested. Rounds are played at once, and each cohort has one client.
"""

from __future__ import annotations

import contextlib
import threading

from dpbandits.actions import Actions
from dpbandits.cli._serve_example import free_port, serving
from dpbandits.privacy import TRUST_MODELS, PrivacyRequest
from dpbandits.protocol import Schedule, Study
from dpbandits.service.actuator import Actuator, play_all
from dpbandits.service.coordinator import Context, Coordinator, HttpLink, coordinator_app
from dpbandits.service.shared import Listening, RoleTokens, ShufflerAddress, Timing, Transport, server_for
from dpbandits.service.shuffler import Shuffler, ShufflerContext, shuffler_app
from dpbandits.service.wire import KeyPair, hashed, new_secret
from dpbandits.storage import MemoryStore

CLIENTS = 20
EPSILON, DELTA = 1.0, 1e-6


def serve_conformance(trust: str, mode: str, noise: str | None) -> int:
    """Serve until the process is stopped.

    Args:
        trust: The trust model.
        mode: The mode of the shuffler; ignored if the trust model has no shuffler.
        noise: The noise; None for the one with the least predicted error.

    Returns:
        The exit status.
    """
    tokens = {role: new_secret() for role in ("actuator", "coordinator")}
    roles = RoleTokens(hashes={role: hashed(token) for role, token in tokens.items()})
    with contextlib.ExitStack() as running:
        address, link = None, None
        if TRUST_MODELS[trust].shuffler:
            keys, place = KeyPair.new(), Listening(port=free_port())
            shuffler = Shuffler(ShufflerContext(keys=keys, mode=mode, conformance=True), MemoryStore())
            running.enter_context(serving(server_for(shuffler_app(shuffler, roles), place)))
            address = ShufflerAddress(url=place.url, key=str(keys.public), mode=mode)
            link = HttpLink(place.url, tokens["coordinator"])
        listening = Listening(port=free_port())
        context = _context(trust, noise, address, listening.url)
        coordinator = Coordinator(context, MemoryStore(), link)
        codes = coordinator.operator.new_codes(CLIENTS).codes
        coordinator.writer.run("codes", lambda t: coordinator.operator.keep_codes(t, codes))
        _tell(coordinator, listening.url, codes)
        actuator = Actuator(listening.url, tokens["actuator"], running.enter_context(Transport()))
        threading.Thread(target=play_all, args=(actuator, _played), daemon=True).start()
        server_for(coordinator_app(coordinator, roles), listening).run()
    return 0


def _context(trust: str, noise: str | None, address: ShufflerAddress | None, url: str) -> Context:
    study = Study(
        actions=Actions.generate("sphere", count=12, dimension=3, rng=3),
        horizon=10**9,
        privacy=PrivacyRequest(trust=trust, epsilon=EPSILON, delta=DELTA, noise=noise),
        schedule=Schedule(cohorts=(1,) * CLIENTS, first_length=12, growth=2.0),
    )
    timing = Timing(report_seconds=10, poll_seconds=0.5)
    return Context(
        study=study, keys=KeyPair.new(), timing=timing, shuffler=address, url=url, conformance=True
    )


def _tell(coordinator: Coordinator, url: str, codes: list[str]) -> None:
    about = coordinator.operator.about()
    print("CONFORMANCE TEST: this is not a study. No participation is used up, and nothing is kept.")
    print(f"url {url}")
    print(f"terms {about.study}")
    print(f"features {' '.join(about.features)}")
    for code in codes:
        print(f"code {code}")
    print("Each code is for one client. Use the codes one after another. Stop with Ctrl-C.", flush=True)


def _played(action: int, rounds: int) -> None:
    print(f"played action {action} for {rounds:,} rounds", flush=True)
