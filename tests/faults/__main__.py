"""The command that runs many studies under faults: `python -m tests.faults --runs 500 --seed 1`.

Run it in the root folder of the repository. The seed and the number of a run determine the run, except for
two things: what a process is doing when it is killed after a time, and how its threads are scheduled. If a
run fails, its list of faults is shortened, printed and written to a JSON file. Move that file to
tests/faults/kept, with a name that describes the failure, and it becomes a test. The exit status is 1 if a
run failed.

With `--processes` the parties are real commands over loopback TLS (deployed.py). These runs are slower and
less repeatable. With `--postgres` as well, two coordinators with wrong clocks use one PostgreSQL database,
whose server is killed and whose disk fills. `--jobs` of these runs go side by side, each with a PostgreSQL
server of its own. They wait most of the time, so there may be more of them than processors: 5 per processor
are fine.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path

import msgspec
from rich.progress import Progress

from tests.service.helpers import MODELS

from .database import databases
from .deployed import DeployedOutcome, draw_deployed, run_deployed
from .faults import Case, draw_case, steps_of
from .preloaded import Preloaded
from .shrinking import shrink
from .world import Outcome, run_case, study_for


def main() -> int:
    given = _arguments()
    if given.json:
        return _tell_outcomes(given)
    if given.processes:
        return _deployed(given)
    began, counts, failed = time.perf_counter(), _Counts(), 0
    try:
        with Progress(disable=not sys.stdout.isatty()) as progress:
            task = progress.add_task("faulty runs", total=given.runs)
            for outcome in _outcomes(given):
                counts.add(outcome)
                progress.advance(task)
                if outcome.problems:
                    failed += 1
                    _tell(outcome, given.out)
                elif not sys.stdout.isatty() and counts.runs % 25 == 0:
                    print(f"{counts.runs} of {given.runs} runs, {failed} failed", flush=True)
    except KeyboardInterrupt:
        print("interrupted")
        given.runs = -1
    counts.tell(time.perf_counter() - began, failed)
    return 130 if given.runs < 0 else int(failed > 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Studies under faults.")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    modes = [mode for _, mode in MODELS if mode is not None]
    parser.add_argument("--mode", choices=modes, help="only studies with a shuffler of this mode")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path("out/faults"), help="folder for the runs that fail")
    parser.add_argument("--processes", action="store_true", help="use real processes over loopback TLS")
    parser.add_argument("--postgres", action="store_true", help="with --processes: use PostgreSQL")
    parser.add_argument("--json", action="store_true", help=argparse.SUPPRESS)  # one of several processes
    return parser.parse_args()


def _deployed(given: argparse.Namespace) -> int:
    """Run real processes."""
    failed, ended, met, began = 0, 0, Counter[str](), time.perf_counter()
    for outcome in _side_by_side(given) if given.jobs > 1 else _deployed_outcomes(given):
        met.update(outcome.met)
        ended += 1
        failed += bool(outcome.problems)
        model = f"{outcome.case.trust} {outcome.case.mode or ''}".strip()
        told = "; ".join(outcome.problems) or "ok"
        print(f"run {outcome.case.seed}, {model}, {outcome.seconds:.0f} s: {told}", flush=True)
        if outcome.problems:
            given.out.mkdir(parents=True, exist_ok=True)
            path = given.out / f"processes-{outcome.case.seed.replace('/', '-')}.json"
            path.write_bytes(msgspec.json.format(msgspec.json.encode(outcome.case)))
            print(f"  kept in {path}")
    print(f"{ended} of {given.runs} runs, {failed} failed, {time.perf_counter() - began:.0f} s")
    print("occurred:", ", ".join(f"{name} {count}" for name, count in sorted(met.items())))
    return int(failed > 0 or ended < given.runs)


def _deployed_outcomes(given: argparse.Namespace) -> Iterator[DeployedOutcome]:
    """Run one study after another."""
    sys.modules.setdefault("trio", None)  # type: ignore[arg-type]  # httpx looks for it at each request
    numbers = range(given.first, given.first + given.runs)
    cases = [draw_deployed(given.seed, number, postgres=given.postgres) for number in numbers]
    with (
        closing(Preloaded()) as preloaded,
        databases() if given.postgres else nullcontext(None) as new,
    ):
        for case in cases:
            yield run_deployed(case, preloaded, None if new is None else new())


def _tell_outcomes(given: argparse.Namespace) -> int:
    """Print one JSON line per run."""
    for outcome in _deployed_outcomes(given):
        print(msgspec.json.encode(outcome).decode(), flush=True)
    return 0


def _side_by_side(given: argparse.Namespace) -> Iterator[DeployedOutcome]:
    """Share the runs between several processes, and yield their outcomes as they come."""
    jobs = min(given.jobs, given.runs)
    bounds = [given.first + given.runs * job // jobs for job in range(jobs + 1)]
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def share(first: int, last: int) -> None:
        command = [sys.executable, "-m", "tests.faults", "--processes", "--json", f"--seed={given.seed}"]
        command += [f"--first={first}", f"--runs={last - first}", *(["--postgres"] if given.postgres else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
        lines.put(None)

    for first, last in itertools.pairwise(bounds):
        threading.Thread(target=share, args=(first, last), daemon=True).start()
    while jobs:
        line = lines.get()
        if line is None:
            jobs -= 1
        else:
            yield msgspec.json.decode(line, type=DeployedOutcome)


def _outcomes(given: argparse.Namespace) -> Iterator[Outcome]:
    for trust, _ in MODELS:
        study_for(trust)
    for noise in ("discrete-gaussian", "server-gaussian"):
        study_for("shuffle", noise)
    numbers = range(given.first, given.first + given.runs)
    if given.mode is not None:  # the models alternate, so every sixth run has this mode
        place = next(at for at, (_, mode) in enumerate(MODELS) if mode == given.mode)
        numbers = range(place + given.first * len(MODELS), place + numbers.stop * len(MODELS), len(MODELS))
    with multiprocessing.get_context("fork").Pool(given.jobs, _quietly) as pool:
        yield from pool.imap_unordered(partial(_run, given.seed), numbers)


def _quietly() -> None:
    """Ignore interrupts in a worker. The parent handles them and ends its workers, which then clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _end)


def _end(_number: int, _frame: object) -> None:
    signal.alarm(5)  # ends the process even if SystemExit is swallowed, as it is during a fork
    sys.exit(1)


def _run(seed: int, number: int) -> Outcome:
    return _outcome(draw_case(seed, number))


def _outcome(case: Case) -> Outcome:
    """Run a case, and turn any exception into a problem of that run, so that the other runs continue."""
    try:
        return run_case(case)
    except Exception:
        return Outcome(case=case, problems=(f"the run itself failed:\n{traceback.format_exc()}",))


def _tell(outcome: Outcome, out: Path) -> None:
    small = shrink(outcome.case, lambda case: bool(_outcome(case).problems))
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{small.seed.replace('/', '-')}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(small)))
    print(f"FAILED: seed {small.seed}, {small.trust} {small.mode or ''}")
    for problem in outcome.problems:
        print(f"  {problem}")
    print(f"  with {len(small.faults)} of {len(outcome.case.faults)} faults, kept in {path}:")
    for fault in small.faults:
        print(f"    {fault}", flush=True)


class _Counts:
    """Counts of the faults that occurred in all runs."""

    def __init__(self) -> None:
        self.runs = self.messages = self.failed_attempts = 0
        self._met, self._steps, self._models = Counter[str](), Counter[str](), Counter[str]()

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.messages += outcome.messages
        self.failed_attempts += outcome.failed_attempts
        self._met += outcome.met
        self._steps += outcome.steps
        case = outcome.case
        self._models[" ".join(filter(None, (case.trust, case.mode, case.noise)))] += 1

    def tell(self, seconds: float, failed: int) -> None:
        each = seconds / max(1, self.runs)
        print(f"{self.runs} runs, {failed} failed, {seconds:.0f} s ({each:.2f} s each)")
        print("models:", ", ".join(f"{name} {count}" for name, count in sorted(self._models.items())))
        print(f"messages {self.messages:,}, attempts that failed with too few reports {self.failed_attempts}")
        print(
            "faults that occurred:", ", ".join(f"{name} {count}" for name, count in sorted(self._met.items()))
        )
        everywhere = {
            f"{party}: {step}"
            for _, mode in MODELS
            for party in (("coordinator",) if mode is None else ("coordinator", "shuffler"))
            for step in steps_of(party, mode)
        }
        print(f"killed at {len(self._steps)} of {len(everywhere)} journal steps")
        if missing := sorted(everywhere - set(self._steps)):
            print("never at", ", ".join(missing))


if __name__ == "__main__":
    sys.exit(main())
