"""How fast one process closes a cohort: reads its sealed reports, decrypts and adds them, releases, deletes.

    python benchmarks/closing.py [--reports 20000]

A real coordinator with SQLite closes a phase in the central model, with 14 numbers per report. The reports
are in its store, as `benchmarks/service_load.py` leaves them. Rates are per second of CPU time of this one
process, from the deadline to the end of the transaction of the release.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import sqlite3
import struct
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from load_generator import ticket
from service_load import prepared

from dpbandits.protocol import Plan, decode
from dpbandits.service.config import read_study
from dpbandits.service.coordinator import Coordinator
from dpbandits.service.wire import Place, PublicKey, hashed
from dpbandits.storage import StoredReport

AT_ONCE = 5000


def store_reports(coordinator: Coordinator, plan: Plan, key: PublicKey, study: str, count: int) -> float:
    """Store this many sealed reports; return the CPU seconds of sealing them, the client's part."""
    mechanism = plan.asked_mechanism
    centre = mechanism.message.twice_centre // 2  # a report that is always in range
    plaintext, sealing = struct.pack(f"<{plan.numbers}q", *[centre] * plan.numbers), 0.0
    for first in range(0, count, AT_ONCE):
        reports, started = list[StoredReport](), time.process_time()
        for number in range(first, min(first + AT_ONCE, count)):
            name = hashed(ticket(number))
            place = Place(study=study, phase=1, attempt=1, plan=plan.digest, pseudonym=name)
            sealed = key.seal(plaintext, place, "report")
            reports.append(StoredReport(phase=1, attempt=1, pseudonym=name, digest=name, sealed=sealed))
        sealing += time.process_time() - started
        with coordinator.store.transaction() as transaction:
            transaction.accept(reports)
    return sealing


def stored_bytes(directory: Path) -> int:
    """Return the size of the store, without its log."""
    file = directory / "study.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file.stat().st_size


def released(coordinator: Coordinator) -> bool:
    """Return whether the store has the release."""
    with coordinator.store.transaction() as transaction:
        return bool(transaction.releases())


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="Measure how fast a cohort is closed.")
    parser.add_argument("--reports", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        site, settings = prepared(Path(directory), options.reports, "sqlite:///study.sqlite", tls=False)
        coordinator = read_study(site.study_file).coordinator()
        plan, key = decode(settings["plan"].encode(), Plan), PublicKey.parse(settings["key"])
        empty = stored_bytes(site.directory)
        sealing = store_reports(coordinator, plan, key, settings["study"], options.reports)
        full = stored_bytes(site.directory)
        with coordinator.store.transaction() as transaction:
            attempt = transaction.latest(lock=True)
            assert attempt is not None
            transaction.change_attempt(attempt, replace(attempt, since=time.time() - 10, seconds=1.0))
        started = time.process_time()
        while not released(coordinator):
            coordinator.advance()
        closing = time.process_time() - started
        coordinator.close()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(
        f"{options.reports:,} reports of {plan.numbers} numbers: closed at {options.reports / closing:,.0f} "
        f"reports per second and core ({closing:.2f} s), {memory:,.0f} MB; "
        f"on disk {empty / options.reports:.0f} bytes per member of the cohort and "
        f"{(full - empty) / options.reports:.0f} more per report; "
        f"a client seals {options.reports / sealing:,.0f} per second and core"
    )


if __name__ == "__main__":
    main()
