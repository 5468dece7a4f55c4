"""Sweeps on loky, on a Dask cluster over TCP and on Ray: the same results, and what an engine costs.

    python benchmarks/sweep_engines.py [--runs 100] [--pairs 3] [--only dask] [--asleep]

1. Every engine returns the traces of a sweep in one process, run for run.
2. A sweep of runs that take 0.1 s of CPU time each, on two workers that are ready. Its time, divided by that
   of two plain processes with half of the runs each, is at most 1.3. Both take turns, so that other work of
   the machine affects both.
3. One of the two Dask workers is killed in the middle of a sweep. Every run must be in the checkpoint once,
   and no run that was finished before may be computed again.

With `--asleep` the runs wait for 0.1 s instead of computing. On a machine with other work, this measures the
delays of an engine, and not its share of the processor. Ray gives its workers a low priority (niceness 15),
which is turned off here.

The Dask scheduler and its workers are processes of their own on loopback, with one thread each. Ray is
measured if it is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar

from dpbandits.simulation import BACKENDS, Engine, Setting, run_tasks, sweep

WORKERS = 2
SECONDS = 0.1
LIMIT = 1.3
LOOPBACK = "tcp://127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Spun:
    """The result of a run: which process computed it."""

    seed: int
    process: int


@dataclass(frozen=True, kw_only=True)
class Spin:
    """A job that uses the processor for a stated time, and notes in a file that it was run."""

    seconds: float
    asleep: bool = False
    log: str | None = None
    outcome: ClassVar[type[Spun]] = Spun

    @property
    def name(self) -> str:
        """The same for all."""
        return "spin"

    def run(self, seed: int) -> Spun:
        """Compute."""
        if self.log is not None:
            with Path(self.log).open("a", encoding="ascii") as file:
                file.write(f"{seed}\n")
        started = time.process_time()
        if self.asleep:
            time.sleep(self.seconds)
        while not self.asleep and time.process_time() - started < self.seconds:
            sum(range(1000))
        return Spun(seed=seed, process=os.getpid())


def spin(connection: Connection, job: Spin) -> None:
    """Compute runs without an engine, as many as are asked for; reply when they are done."""
    while runs := connection.recv():
        for seed in range(runs):
            job.run(seed)
        connection.send(runs)


class Plain:
    """Plain processes, started before any engine, that compute runs of their own."""

    def __init__(self, job: Spin) -> None:
        self.job = job
        context, self._ends = get_context("spawn"), list[Connection]()
        for _ in range(WORKERS):
            here, there = context.Pipe()
            context.Process(target=spin, args=(there, job), daemon=True).start()
            self._ends.append(here)
        self.seconds(1)  # until they are ready

    def seconds(self, runs: int) -> float:
        """Return how long this many runs in each process take."""
        started = time.perf_counter()
        for end in self._ends:
            end.send(runs)
        for end in self._ends:
            end.recv()
        return time.perf_counter() - started

    def stop(self) -> None:
        """Let the processes end."""
        for end in self._ends:
            end.send(0)


@contextmanager
def dask_cluster() -> Iterator[tuple[str, list[int]]]:
    """Start a scheduler and two workers; yield the address and the processes of the workers."""
    here = Path(__file__).parent
    own = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), os.environ.get("PYTHONPATH", "")])}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "scheduler.json"

        def start(module: str, *options: str) -> subprocess.Popen[bytes]:
            command = [
                sys.executable,
                "-m",
                f"distributed.cli.{module}",
                "--scheduler-file",
                str(file),
                *options,
            ]
            process = subprocess.Popen(command, env=own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            return process

        start("dask_scheduler", "--host", LOOPBACK, "--port", "0", "--no-dashboard")
        alone = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", folder)
        alone += ("--death-timeout", "30")  # they end if this program is killed
        workers = [start("dask_worker", "--host", LOOPBACK, *alone) for _ in range(WORKERS)]
        while not file.exists():
            time.sleep(0.05)
        time.sleep(5)  # the workers connect
        yield json.loads(file.read_text())["address"], [worker.pid for worker in workers]


def same_results(engines: dict[str, Engine]) -> bool:
    """Compare the traces of a sweep on every engine with those of one process."""
    settings = [
        Setting.of(trust=trust, actions=200, dimension=5, horizon=20_000)
        for trust in ("none", "central", "local", "shuffle")
    ]
    seeds = range(10)

    def collected(engine: Engine, workers: int) -> dict[Any, Any]:
        runs = sweep(settings, seeds, workers=workers, engine=engine)
        return {(setting, trace.seed): trace for setting, trace in runs}

    alone = collected(Engine(), 1)
    same = {name: collected(engine, WORKERS) == alone for name, engine in engines.items()}
    for name, fine in same.items():
        print(f"{name}: {len(alone)} traces {'are those' if fine else 'DIFFER from those'} of one process")
    return all(same.values())


def overheads(engine: Engine, plain: Plain, runs: int, pairs: int) -> list[float]:
    """Return the time of a sweep over that of two plain processes, for each pair of measurements."""
    found = list[float]()
    with engine.open(WORKERS) as pool:
        from dpbandits.simulation import _jobs

        tasks = [(plain.job, seed) for seed in range(runs)]
        list(_jobs._distributed(tasks[: 4 * WORKERS], pool))  # starts the workers and loads the library
        for _ in range(pairs):
            ideal = plain.seconds(runs // WORKERS)
            started = time.perf_counter()
            assert len(list(_jobs._distributed(tasks, pool))) == runs
            found.append((time.perf_counter() - started) / ideal)
    return found


def killed(address: str, victims: list[int]) -> bool:
    """Kill a Dask worker in the middle of a sweep; return whether no finished run was lost."""
    runs = 40
    with tempfile.TemporaryDirectory() as folder:
        log, checkpoint = Path(folder) / "log", Path(folder) / "runs.jsonl"
        tasks = [(Spin(seconds=SECONDS, log=str(log)), seed) for seed in range(runs)]
        before, done = list[int](), list[int]()
        for _, run in run_tasks(tasks, engine=Engine(backend="dask", address=address), checkpoint=checkpoint):
            done.append(run.seed)
            if len(done) == runs // 2:
                os.kill(victims[0], signal.SIGKILL)
                before = list(done)
        started = [int(line) for line in log.read_text().split()]
        again = [seed for seed in set(started) if started.count(seed) > 1]
        kept = len(checkpoint.read_bytes().splitlines())
    fine = sorted(done) == list(range(runs)) and kept == runs and not set(again) & set(before)
    print(
        f"dask, one of {WORKERS} workers killed after {len(before)} of {runs} runs: {kept} runs in the "
        f"checkpoint, {len(again)} computed twice, none of them finished before {'ok' if fine else 'MISSED'}"
    )
    return fine


def main() -> int:
    """Measure all engines."""
    parser = argparse.ArgumentParser(description="Compare the engines of sweeps.")
    parser.add_argument("--runs", type=int, default=100, help="runs of 0.1 s per measurement")
    parser.add_argument("--pairs", type=int, default=3, help="measurements per engine")
    parser.add_argument("--only", choices=BACKENDS, help="one engine")
    parser.add_argument("--asleep", action="store_true", help="runs wait instead of computing")
    options = parser.parse_args()
    os.environ.setdefault("RAY_worker_niceness", "0")
    fine, plain = True, Plain(Spin(seconds=SECONDS, asleep=options.asleep))
    with dask_cluster() as (address, victims):
        engines = {"loky": Engine(), "dask": Engine(backend="dask", address=address)}
        if find_spec("ray") is None:
            print("ray: not installed, not measured")
        else:
            engines["ray"] = Engine(backend="ray")
        if options.only:
            engines = {options.only: engines[options.only]}
        fine &= same_results(engines)
        for name, engine in engines.items():
            ratios = overheads(engine, plain, options.runs, options.pairs)
            middle = statistics.median(ratios)
            fine &= middle <= LIMIT
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{name}: {middle:.2f} x two plain processes (limit {LIMIT:g}; {shown})", flush=True)
        if "dask" in engines:
            fine &= killed(address, victims)
    plain.stop()
    return int(not fine)


if __name__ == "__main__":
    sys.exit(main())
