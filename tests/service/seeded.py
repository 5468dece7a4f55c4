"""A script that runs processes of a deployed study with seeded noise. It is run by path, never imported.

    seeded.py coordinator STUDY.toml SEED     as `dpbandits serve`, with a seeded noise source
    seeded.py clients SETTINGS.json           clients with noise and rewards derived from their pseudonyms

The first `liars` clients lie. In mode `verified` they send reports with false proofs, each of another kind.
In mode `split` they add to their share what makes the worst action look like the best one.

No configuration can seed the noise. The script passes it to the Python constructors, and releases are marked
`simulated`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from dpbandits.actions import Actions
from dpbandits.privacy import TRUST_MODELS, SimulatedNoise
from dpbandits.protocol import Plan, share_message
from dpbandits.service.client import AsyncClient, ClientCore, Consent, take_part
from dpbandits.service.config import read_study
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import AsyncTransport, configure_logs, serve
from dpbandits.service.wire import Pins, Place, ProvedReports, hashed, split_shares
from tests.service.helpers import THETA, client_averages, client_noise
from tests.service.lying_proofs import HARMLESS, LIES


def coordinator(study: Path, seed: int) -> None:
    configure_logs(level="DEBUG")
    file = read_study(study)
    noise = SimulatedNoise(np.random.default_rng(seed))
    file = replace(file, context=replace(file.context, noise=noise))
    serve(coordinator_app(file.coordinator(), file.roles, file.limits), file.listening)


@dataclass(kw_only=True)
class LyingCore(ClientCore):
    """A client that lies when it splits its report into two parts.

    In mode `split` liars agree that the first one of a phase moves the sums: sums that all of them move at
    once would wrap around, to a result that none of them wants.
    """

    actions: Actions
    kind: str
    moved: ClassVar[set[str]] = set()

    def _parts(self, plan: Plan, place: Place, payload: bytes, mode: str) -> tuple[bytes, bytes]:
        if mode == "verified":
            return LIES[self.kind](ProvedReports.of(plan, place), payload)
        one, other = split_shares(plan, payload)
        if place.plan in self.moved:
            return one, other
        self.moved.add(place.plan)
        return one, share_message(plan).pack(self._moved(plan, share_message(plan).unpack([other])[0]))

    def _moved(self, plan: Plan, share: Any) -> Any:
        """Add what turns the means of the truth into the means of its opposite."""
        truth = self.actions.matrix[list(plan.support)] @ THETA[: self.actions.dimension]
        moved = (plan.reported(-truth[None]) - plan.reported(truth[None]))[0] * plan.cohort
        levels = np.rint(moved / plan.asked_mechanism.unit_of_message).astype(np.int64)
        return (share + levels) & ((1 << plan.asked_mechanism.sum_bits) - 1)


async def clients(settings: dict[str, str]) -> None:
    actions = Actions.load(settings["actions"])
    liars = int(settings.get("liars", 0))
    codes = Path(settings["codes"]).read_text().split()
    consent = Consent(trusts=tuple(TRUST_MODELS), epsilon=20, delta=1e-3)
    reported = list[tuple[int, int, str]]()

    kinds = itertools.cycle(kind for kind in LIES if kind not in HARMLESS)

    async def one(place: int, code: str, transport: AsyncTransport) -> None:
        made = partial(LyingCore, actions=actions, kind=next(kinds)) if place < liars else ClientCore
        core = made(url=settings["url"], consent=consent, pins=Pins(terms=settings["terms"]))
        pseudonym = hashed(core.memory.ticket)
        core.noise = client_noise(pseudonym)

        def averages(plan: Plan) -> list[float]:
            return client_averages(actions, plan, pseudonym)

        if await take_part(AsyncClient(core, transport), code, averages) and place >= liars:
            reported.append((core.memory.phase, core.memory.attempt, pseudonym))

    async with AsyncTransport(certificates=Path(settings["certificates"]), connections=16) as transport:
        await asyncio.gather(*(one(place, code, transport) for place, code in enumerate(codes)))
    Path(settings["out"]).write_text(json.dumps(reported))


if __name__ == "__main__":
    if sys.argv[1] == "coordinator":
        coordinator(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        asyncio.run(clients(json.loads(Path(sys.argv[2]).read_text())))
