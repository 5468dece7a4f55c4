"""How long a cohort of mode `verified` takes to close, with both parties on this machine.

    python benchmarks/verified_cohort.py --reports 50000 --numbers 20

Coordinator and shuffler are the real commands over loopback TLS, each with an SQLite store. The reports are
made by the client's own code and written to the shuffler's store, since their transport is measured by
service_load.py. Then the deadline passes. The clock runs from there to the release. Meanwhile `/healthz` of
both parties is requested ten times a second.

Exits with status 1 if 50,000 reports take 2 minutes or more, or if a request to `/healthz` takes 200 ms or
more. On a machine with other load a limit may fail for that reason alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).parent.parent))

from load_generator import ticket
from tests.service.processes import Site

from dpbandits.actions import Actions
from dpbandits.privacy import SimulatedNoise
from dpbandits.protocol import Plan, encode, report_totals, respond_with_averages
from dpbandits.service.config import read_shuffler, read_study
from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import (
    CollectionRequest,
    Place,
    ProvedReports,
    PublicKey,
    ReportSlot,
    bound_share,
    hashed,
)
from dpbandits.storage import LedgerEntry, StoredReport
from dpbandits.vdaf import NONCE_SIZE

MOST_SECONDS, MOST_HEALTH = 120.0, 0.2
_BLOCK = 500


def made(plan: Plan, keys: tuple[str, str], first: int, last: int) -> list[StoredReport]:
    """Return the reports of these clients, as the shuffler stores them."""
    noise = SimulatedNoise(np.random.default_rng(first))
    shuffler, coordinator = map(PublicKey.parse, keys)
    payloads = [
        respond_with_averages(plan, [0.3] * len(plan.support), noise).payload for _ in range(first, last)
    ]
    proved = ProvedReports.of(plan, Place.of(plan.study, plan, 1, ""))
    numbers = np.array([report_totals(plan, payload) for payload in payloads]) - proved.low
    nonces = [os.urandom(NONCE_SIZE) for _ in payloads]
    rands = [os.urandom(proved.prio3.rand_size) for _ in payloads]
    shares = proved.prio3.shard_batch(numbers, nonces, rands)  # `parts` does the same for one report
    found = list[StoredReport]()
    for number, nonce, (public, inputs) in zip(range(first, last), nonces, shares, strict=True):
        place = Place.of(plan.study, plan, 1, hashed(ticket(number)))
        one, other = (nonce + public + share for share in inputs)
        bound = bound_share(other, place, hashed(token(number)))
        body = shuffler.seal(one, place, "share-shuffler")
        body += coordinator.seal(bound, place, "share-coordinator")
        found.append(ReportSlot(plan=plan, place=place, mode="verified").received(body))
    return found


def token(number: int) -> str:
    """Return the token of one simulated client."""
    return f"token-{number:037d}"


def all_made(plan: Plan, keys: tuple[str, str], reports: int) -> Iterator[list[StoredReport]]:
    """Make all reports on all cores."""
    blocks = [(start, min(start + _BLOCK, reports)) for start in range(0, reports, _BLOCK)]
    with multiprocessing.get_context("fork").Pool() as pool:
        yield from pool.imap(partial(_made_block, plan, keys), blocks)


def _made_block(plan: Plan, keys: tuple[str, str], block: tuple[int, int]) -> list[StoredReport]:
    return made(plan, keys, *block)


def prepare(site: Site, reports: int) -> Plan:
    """Write a study to both stores whose first collection has all its reports."""
    file = read_study(site.study_file)
    coordinator = file.coordinator()
    coordinator.advance()
    with coordinator.store.transaction() as transaction:
        codes = [hashed(f"code-{number:037d}") for number in range(reports)]
        transaction.add_codes(codes)
        entries = list[LedgerEntry]()
        for number, code in enumerate(codes):
            client = transaction.enrol(code, hashed(token(number)))
            entries.append(LedgerEntry(client=client, phase=1, attempt=1, pseudonym=hashed(ticket(number))))
        transaction.burn(entries)
        begun = transaction.latest(lock=True)
        assert begun is not None
        collecting = replace(begun, state="collecting", joined=reports, since=time.time(), seconds=0.0)
        transaction.change_attempt(begun, collecting)
        plan = coordinator.rounds.journal.plan(transaction, 1)
    signed = coordinator.context.signed
    assert signed is not None
    coordinator.close()
    shuffler = read_shuffler(site.shuffler_file).shuffler()
    request = CollectionRequest(
        study=plan.study,
        terms=signed.terms,
        signature=signed.signature,
        plan=encode(plan).decode(),
        members=[entry.pseudonym for entry in entries],
    )
    opening = shuffler.checked(1, request)
    shuffler.writer.run("open", lambda t: shuffler.open(t, 1, 1, opening), alone=True)
    terms = coordinator.context.terms
    assert terms.shuffler is not None
    for block in all_made(plan, (terms.shuffler.key, terms.coordinator.key), reports):
        with shuffler.store.transaction() as transaction:
            if set(transaction.accept(block)) != {"accepted"}:
                raise SystemExit("a report was not accepted")
    shuffler.close_store()
    return plan


class Health:
    """Requests `/healthz` of all parties ten times a second, in a thread."""

    def __init__(self, urls: list[str], certificate: Path) -> None:
        self.seconds: dict[str, list[float]] = {url: [] for url in urls}
        self._ended = threading.Event()
        self._client = httpx.Client(verify=trusting(certificate), timeout=30)
        for url in urls:
            self._client.get(f"{url}/healthz")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.1):
            for url, found in self.seconds.items():
                began = time.perf_counter()
                self._client.get(f"{url}/healthz").raise_for_status()
                found.append(time.perf_counter() - began)

    def end(self) -> None:
        """Stop the requests."""
        self._ended.set()
        self._thread.join()
        self._client.close()


def main() -> None:
    """Close one cohort."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--reports", type=int, default=50_000)
    parser.add_argument("--numbers", type=int, default=20)
    parser.add_argument("--noise", help="for example discrete-gaussian; by default the servers' noise")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        actions = Actions.generate("sphere", count=3 * options.numbers, dimension=options.numbers, rng=3)
        site = Site(
            directory=Path(directory),
            trust="shuffle",
            mode="verified",
            noise=options.noise,
            cohorts=(options.reports,),
            horizon=10**8,
            minimum_share=0.9,
            actions=actions,
        )
        began = time.perf_counter()
        plan = prepare(site, options.reports)
        low, high = plan.asked_mechanism.message.low, plan.asked_mechanism.message.high
        slot = ReportSlot(plan=plan, place=Place.of(plan.study, plan, 1, "0" * 64), mode="verified")
        print(f"{options.reports:,} reports of {plan.numbers} numbers from {low} to {high}", flush=True)
        print(f"body of a report: {slot.body_size:,} bytes", flush=True)
        print(f"reports made in {time.perf_counter() - began:.0f} s on {os.cpu_count()} cores", flush=True)
        sys.exit(closed(site, options.reports))


def closed(site: Site, reports: int) -> int:
    """Start both parties, wait for the release and print the figures; return the exit status."""
    with site.running("shuffler", site.shuffler()) as shuffler:
        site.wait_ready(site.shuffler_url)
        began = time.perf_counter()
        with site.running("coordinator", site.coordinator()) as coordinator:
            site.wait_ready(site.url)
            health = Health([site.url, site.shuffler_url], site.certificate)
            try:
                while (status := site.ask("GET", "/v1/status"))["releases"] < 1:
                    time.sleep(0.5)
                seconds = time.perf_counter() - began
            finally:
                health.end()
            parties = {"coordinator": coordinator, "shuffler": shuffler}
            cpu = {name: sum(psutil.Process(one.pid).cpu_times()[:2]) for name, one in parties.items()}
    print(f"released in {seconds:.1f} s, {status['excluded']:,} reports excluded")
    print(f"load average of the machine: {os.getloadavg()[0]:.1f}")
    for name, used in cpu.items():
        print(f"  {name}: {used:.1f} s of processor time, {reports / used:,.0f} reports per second and core")
    slowest = 0.0
    for url, found in health.seconds.items():
        slowest = max(slowest, *found)
        median, most = statistics.median(found) * 1e3, max(found) * 1e3
        print(f"  {url}/healthz: median {median:.0f} ms, slowest {most:.0f} ms")
    return int(seconds >= MOST_SECONDS or slowest >= MOST_HEALTH)


if __name__ == "__main__":
    main()
