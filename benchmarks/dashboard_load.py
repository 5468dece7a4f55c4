"""What open dashboards cost a coordinator: its report rate with them, and the first page of a large study.

1. `--dashboards` browsers (200) poll the overview as often as an open page is told to, while a load
   generator sends reports. Rounds with and without them alternate, so that other load on the machine affects
   both. The number of reports changes all the time, so every poll gets a new page. The pages cost the
   coordinator a share of its CPU time: the CPU time per second that a round with them needs in addition to a
   round without them. If the coordinator is the bottleneck, the rate falls by this share. Limit: a tenth. The
   rates by the clock are printed, too; there the browsers and the load generator compete with the coordinator
   for the same cores.
2. `--actions` (a million) and `--phases` (50) are stored. Each page is loaded while its analysis still runs,
   and again afterwards. Limit: one second each.

Run it with `make load`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import numpy as np
from starlette.applications import Starlette

sys.path.insert(0, str(Path(__file__).parent.parent))

from service_load import running
from tests.service.live import served

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Release, Schedule, Study, ask, encode, tell
from dpbandits.service.coordinator import Context, Coordinator
from dpbandits.service.dashboard import add_dashboard
from dpbandits.service.shared import RoleTokens
from dpbandits.service.wire import KeyPair, hashed
from dpbandits.storage import Attempt, MemoryStore, PlanRecord, ProgressRecord, ReleaseRecord

LIMIT, SECONDS, EVERY = 0.9, 1.0, 5.0
PAUSE = 2 * EVERY + 3  # seconds before each round: until the pages were counted and have their interval
LOAD = argparse.Namespace(postgresql=False, connections=64)
VIEWS = ("overview", "options", "options?show=dropped&page=3", "time", "privacy", "health")


async def poll(url: str, token: str, dashboards: int) -> None:
    """Poll like this many open pages until the process is stopped."""
    limits = httpx.Limits(max_connections=dashboards, max_keepalive_connections=dashboards)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as http:
        await http.post("/dashboard/login", data={"token": token})

        async def page(number: int) -> None:
            version, every = "", EVERY
            await asyncio.sleep(EVERY * number / dashboards)
            while True:
                reply = await http.get(
                    "/dashboard/overview", params={"v": version}, headers={"HX-Request": "true"}
                )
                if reply.status_code == 200:
                    version = reply.text.partition('data-version="')[2].partition('"')[0]
                    every = float(reply.text.partition('hx-trigger="every ')[2].partition("s")[0])
                await asyncio.sleep(every)

        await asyncio.gather(*(page(number) for number in range(dashboards)))


@contextlib.contextmanager
def open_pages(url: str, token: str, dashboards: int) -> Iterator[None]:
    """Keep dashboards open in another process."""
    command = [sys.executable, __file__, "poll", url, token, str(dashboards)]
    process = subprocess.Popen(command)
    try:
        time.sleep(PAUSE)
        yield
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def idle() -> Iterator[None]:
    """Wait as long as `open_pages` does, so that a round without pages begins as cold as one with them."""
    time.sleep(PAUSE)
    yield


def measure_rate(options: argparse.Namespace) -> float:
    """Return the share of the coordinator's CPU time that dashboards leave for reports."""
    size, rounds = options.requests, options.rounds
    found: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory), size * (2 * rounds + 1), LOAD, tls=False) as bench,
    ):
        url, token = f"http://127.0.0.1:{bench.site.port}", bench.site.tokens["operator"]
        bench.send("reports", 0, size)  # warms up
        for number in range(2 * rounds):
            sent, on = ((number + 1) * size, (number + 2) * size), number % 2 == 1
            pages = open_pages(url, token, options.dashboards)
            with pages if on else idle():
                found[on].append(bench.send("reports", *sent))
    rates = [statistics.median(rate for rate, _ in found[on]) for on in (False, True)]
    costs = [statistics.median(cost for _, cost in found[on]) * 1e6 for on in (False, True)]
    left = 1 - (costs[1] - costs[0]) / 1e6 * rates[1]
    without = f"without dashboards {rates[0]:,.0f} reports/s ({costs[0]:.0f} µs of CPU each)"
    with_them = f"with {options.dashboards} {rates[1]:,.0f}/s ({costs[1]:.0f} µs)"
    print(f"{without}, {with_them}; they leave {left:.3f} of the CPU time, limit {LIMIT}", flush=True)
    return left


def filled(count: int, phases: int) -> tuple[Context, MemoryStore]:
    """Return a study of many actions, and a store with that many phases of made-up releases."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(count, 6))
    study = Study(
        actions=Actions(rows / np.linalg.norm(rows, axis=1)[:, None]),
        horizon=10**9,
        privacy=PrivacyRequest(trust="none"),
        schedule=Schedule(cohorts=(20,) * (phases + 1), first_length=100, growth=1.1),
    )
    context = Context(study=study, keys=KeyPair.new())
    store = MemoryStore()
    with store.transaction() as transaction:
        study = context.settled(transaction).study
    state, theta = study.begin(), np.array([0.3, 0.2, 0.1, 0.0, -0.1, -0.2])
    for phase in range(1, phases + 1):
        plan = ask(state)
        means = plan.reported(study.actions.matrix[list(plan.support)] @ theta) + plan.centre
        release = Release(plan=plan.digest, means=tuple(means.tolist()), reports=20, simulated=False)
        state = tell(state, plan, release)
        with store.transaction() as transaction:
            transaction.add_plan(PlanRecord(phase=phase, digest=plan.digest, body=encode(plan)))
            transaction.add_release(ReleaseRecord(phase=phase, attempt=1, body=encode(release)))
            transaction.add_progress(ProgressRecord(phase=phase, body=encode(state.progress[-1])))
            transaction.add_attempt(Attempt(phase=phase, number=1, state="released", joined=20))
    return context, store


def measure_first_pages(options: argparse.Namespace) -> float:
    """Return the longest time of a first page."""
    began = time.monotonic()
    context, store = filled(options.actions, options.phases)
    coordinator = Coordinator(context, store)
    print(
        f"{options.actions:,} actions and {options.phases} phases stored in {time.monotonic() - began:.0f} s",
        flush=True,
    )
    app = Starlette()
    app.state.driver = SimpleNamespace(trouble="", poke=lambda: None)
    add_dashboard(app, coordinator, RoleTokens(hashes={"reader": hashed("r" * 43)}))
    with served(app) as url, httpx.Client(base_url=url, follow_redirects=True, timeout=60) as http:
        http.get("/dashboard/static/app.css")
        slowest = max(_loaded(http, view) for view in ("open?token=" + "r" * 43, *VIEWS))
        print("after the analysis:")
        until = time.monotonic() + 600
        while "being computed" in http.get("/dashboard/options").text and time.monotonic() < until:
            time.sleep(1)
        slowest = max(slowest, *(_loaded(http, view) for view in VIEWS))
    coordinator.close()
    print(f"slowest first page {slowest:.2f} s, limit {SECONDS:g} s")
    return slowest


def _loaded(http: httpx.Client, view: str) -> float:
    """Load a page, and return how long it took."""
    began = time.perf_counter()
    reply = http.get(f"/dashboard/{view}")
    took = time.perf_counter() - began
    assert reply.status_code == 200
    print(f"  {view[:32]:<34} {1000 * took:6.0f} ms  {len(reply.content):,} bytes", flush=True)
    return took


def main() -> None:
    """Measure and print; exit with a non-zero status if a limit is exceeded."""
    if sys.argv[1:2] == ["poll"]:
        url, token, dashboards = sys.argv[2:]
        return asyncio.run(poll(url, token, int(dashboards)))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dashboards", type=int, default=200)
    parser.add_argument("--requests", type=int, default=20_000, help="reports per round")
    parser.add_argument("--rounds", type=int, default=5, help="rounds with, and as many without dashboards")
    parser.add_argument("--actions", type=int, default=10**6)
    parser.add_argument("--phases", type=int, default=50)
    parser.add_argument("--only", choices=("rate", "pages"))
    options = parser.parse_args()
    failed = options.only != "rate" and measure_first_pages(options) > SECONDS
    failed = (options.only != "pages" and measure_rate(options) < LIMIT) or failed
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
