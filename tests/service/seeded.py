"""A script that runs processes of a deployed study with seeded noise. It is run by path, never imported.

    seeded.py coordinator STUDY.toml SEED     as `dpbandits serve`, with a seeded noise source
    seeded.py clients SETTINGS.json           clients with noise and rewards derived from their pseudonyms

No configuration can seed the noise. The script passes it to the Python constructors, and releases are marked
`simulated`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from helpers import client_averages, client_noise

from dpbandits.actions import Actions
from dpbandits.privacy import TRUST_MODELS, SimulatedNoise
from dpbandits.protocol import Plan
from dpbandits.service.client import AsyncClient, ClientCore, Consent, take_part
from dpbandits.service.config import read_study
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import AsyncTransport, configure_logs, serve
from dpbandits.service.wire import Pins, hashed


def coordinator(study: Path, seed: int) -> None:
    configure_logs(level="DEBUG")
    file = read_study(study)
    noise = SimulatedNoise(np.random.default_rng(seed))
    file = replace(file, context=replace(file.context, noise=noise))
    serve(coordinator_app(file.coordinator(), file.roles, file.limits), file.listening)


async def clients(settings: dict[str, str]) -> None:
    actions = Actions.load(settings["actions"])
    codes = Path(settings["codes"]).read_text().split()
    consent = Consent(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)
    reported = list[tuple[int, int, str]]()

    async def one(code: str, transport: AsyncTransport) -> None:
        core = ClientCore(url=settings["url"], consent=consent, pins=Pins(terms=settings["terms"]))
        pseudonym = hashed(core.memory.ticket)
        core.noise = client_noise(pseudonym)

        def averages(plan: Plan) -> list[float]:
            return client_averages(actions, plan, pseudonym)

        if await take_part(AsyncClient(core, transport), code, averages):
            reported.append((core.memory.phase, core.memory.attempt, pseudonym))

    async with AsyncTransport(certificates=Path(settings["certificates"]), connections=16) as transport:
        await asyncio.gather(*(one(code, transport) for code in codes))
    Path(settings["out"]).write_text(json.dumps(reported))


if __name__ == "__main__":
    if sys.argv[1] == "coordinator":
        coordinator(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        asyncio.run(clients(json.loads(Path(sys.argv[2]).read_text())))
