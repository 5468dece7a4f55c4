"""Sweeps on processes of this machine, on a real Dask cluster over TCP and, if it is installed, on Ray."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pytest

from dpbandits.cli import main
from dpbandits.errors import InvalidValue, WorkersLost
from dpbandits.simulation import Engine, Setting, _clusters, run_tasks, sweep
from dpbandits.simulation._engine import Pool
from dpbandits.simulation._jobs import _distributed, _run
from tests.cli.helpers import check_refused
from tests.simulation.jobs import Done, Failing, Logged, LostError

ROOT = Path(__file__).parents[2]
SETTINGS = [  # of preset paper, which needs no planning
    Setting.of(trust=trust, preset="paper", actions=40, dimension=3, horizon=500)
    for trust in ("none", "central")
]
SMALL = ["--actions", "40", "--dimension", "3", "--horizon", "500", "--participants", "200"]


def _collect(**options: Any) -> dict[tuple[str, int], Any]:
    return {(setting.privacy.trust, run.seed): run for setting, run in sweep(SETTINGS, range(4), **options)}


@contextmanager
def _dask(folder: Path) -> Iterator[Any]:
    """Start a scheduler, and two workers in processes of their own that nobody restarts."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=0, host="tcp://127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        ExitStack() as stack,
    ):
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        options = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        options += ["--death-timeout", "60"]  # a worker ends if this process is killed
        for _ in range(2):
            command = [
                sys.executable,
                "-m",
                "distributed.cli.dask_worker",
                cluster.scheduler_address,
                *options,
            ]
            worker = subprocess.Popen(
                command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL
            )
            stack.callback(worker.wait)
            stack.callback(worker.kill)
        yield cluster


def test_a_sweep_on_a_dask_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One test, because the cluster takes seconds to start and ends without workers."""
    with _dask(tmp_path) as cluster:
        engine = Engine(backend="dask", address=cluster.scheduler_address)
        _waits_for_workers(cluster)
        _gives_the_results_of_one_process_and_continues_elsewhere(engine, tmp_path / "runs")
        _commands_write_the_same_numbers(engine, tmp_path)
        _a_worker_that_dies_costs_its_unfinished_runs_only(engine, tmp_path)
        cluster.scheduler.allowed_failures = 0  # Dask would try more workers than are left
        monkeypatch.setattr("dpbandits.simulation._jobs._DEATHS", 1)
        monkeypatch.setattr("dpbandits.simulation._clusters._SECONDS_WITHOUT_WORKERS", 3.0)
        job = Logged(log=str(tmp_path / "fatal"), fatal=1, deaths=100)
        with pytest.raises(WorkersLost, match="KilledWorker|Cancelled"):  # joblib's own backend would wait
            list(run_tasks([(job, seed) for seed in range(3)], engine=engine))


def _waits_for_workers(cluster: Any) -> None:
    import distributed

    with distributed.Client(cluster, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)


def _gives_the_results_of_one_process_and_continues_elsewhere(engine: Engine, checkpoint: Path) -> None:
    alone = _collect(workers=1)
    started = sweep(SETTINGS, range(4), engine=engine, checkpoint=checkpoint)
    first = [next(started)[1] for _ in range(3)]
    started.close()
    assert len(checkpoint.read_bytes().splitlines()) == 3
    found = _collect(checkpoint=checkpoint)
    assert found == alone
    times = [run.phases[0].elapsed for run in found.values()]
    assert all(run.phases[0].elapsed in times for run in first)  # they were not run again
    assert _collect(engine=engine) == alone


def _commands_write_the_same_numbers(engine: Engine, folder: Path) -> None:
    plan = ["plan", "--trust", "none", *SMALL, "--runs", "2"]
    for command in (["simulate", "--trust", "none", *SMALL, "--runs", "3"], plan):
        files = [folder / f"{command[0]}-{place}.json" for place in ("here", "there")]
        there = ["--backend", "dask", "--address", str(engine.address)]
        assert main([*command, "--json", str(files[0]), "--workers", "1"]) == 0
        assert main([*command, "--json", str(files[1]), *there]) == 0
        assert files[0].read_bytes() == files[1].read_bytes()
    assert json.loads(files[1].read_text())["rows"][0]["simulated_regret"] > 0


def _a_worker_that_dies_costs_its_unfinished_runs_only(engine: Engine, folder: Path) -> None:
    job, checkpoint, seeds = Logged(log=str(folder / "log"), seconds=0.05), folder / "kept", range(24)
    before, done = set[int](), list[int]()
    for _, run in run_tasks([(job, seed) for seed in seeds], engine=engine, checkpoint=checkpoint):
        done.append(run.seed)
        if len(done) == 8:
            before = set(done)
            os.kill(run.process, signal.SIGKILL)
    assert sorted(done) == list(seeds)
    assert len(checkpoint.read_bytes().splitlines()) == len(seeds)
    started = job.started()
    assert all(started.count(seed) == 1 for seed in before)
    # The worker had one run under way, and on a busy machine others whose results were not fetched yet. At
    # most eight runs are in the cluster at a time, four per worker.
    assert len(started) <= len(seeds) + 8


def test_a_process_of_this_machine_that_dies_costs_unfinished_runs_only(tmp_path: Path) -> None:
    job, checkpoint = Logged(log=str(tmp_path / "log"), fatal=5, deaths=1), tmp_path / "runs"
    tasks = [(job, seed) for seed in range(8)]
    assert sorted(run.seed for _, run in run_tasks(tasks, workers=2, checkpoint=checkpoint)) == list(range(8))
    assert len(checkpoint.read_bytes().splitlines()) == 8
    assert job.started().count(5) == 2


def test_runs_that_kill_every_worker_stop_no_other_run(tmp_path: Path) -> None:
    job, found = Failing(log=str(tmp_path / "log")), list[int]()
    pool = Pool(backend="threading", slots=2, queued=4, losses=(LostError,))
    runs = _distributed([(job, seed) for seed in range(9)], pool)
    with pytest.raises(WorkersLost, match="before 3 runs were finished") as caught:
        found.extend(run.seed for _, run in runs)
    assert sorted(found) == [1, 2, 4, 5, 7, 8]
    assert caught.value.unfinished == 3


def test_the_end_of_a_cluster_ends_the_sweep_at_once(tmp_path: Path) -> None:
    job = Failing(log=str(tmp_path / "log"))
    pool = Pool(backend="threading", slots=2, queued=1, losses=(), ends=(LostError,))
    with pytest.raises(WorkersLost):
        list(_distributed([(job, 3)], pool))
    assert job.started() == [3]


def test_an_error_of_a_run_is_not_taken_for_the_loss_of_a_worker(tmp_path: Path) -> None:
    pool = Pool(backend="threading", slots=2, queued=4, losses=(OSError,))
    with pytest.raises(LostError):
        list(_distributed([(Failing(log=str(tmp_path / "log")), seed) for seed in range(9)], pool))


def test_workers_with_another_version_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="a worker's dpbandits: got .*, expected 0.0.1"):
        _run("0.0.1", 0, Logged(log=str(tmp_path / "log")), 1)


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install '.[ray]'")
def test_a_sweep_on_ray(tmp_path: Path) -> None:
    engine = Engine(backend="ray")
    assert _collect(engine=engine, workers=2) == _collect(workers=1)
    job = Logged(log=str(tmp_path / "log"), fatal=5, deaths=1)
    found = [run.seed for _, run in run_tasks([(job, s) for s in range(8)], engine=engine, workers=2)]
    assert sorted(found) == list(range(8))
    assert len(job.started()) == 9


@pytest.mark.parametrize("command", [["simulate"], ["plan", "--runs", "1"], ["reproduce"]])
def test_engines_that_cannot_be_used_are_refused(
    command: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen
        nowhere = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        refused = f"address: got {nowhere}, expected a running dask cluster (Connection refused)"
        check_refused([*command, "--backend", "dask", "--address", nowhere], refused, capsys)
    here = "address: got tcp://127.0.0.1:1, expected none with backend loky"
    check_refused([*command, "--address", "tcp://127.0.0.1:1"], here, capsys)
    bad = "address: got host:99999, expected a running dask cluster (Port out of range 0-65535)"
    check_refused([*command, "--backend", "dask", "--address", "host:99999"], bad, capsys)
    check_refused([*command, "--workers", "0", "--backend", "dask"], "workers: got 0", capsys)
    monkeypatch.setattr("dpbandits.simulation._engine.find_spec", lambda name: None)
    missing = "backend: got ray, expected an installed ray: pip install '.[ray]'"
    check_refused([*command, "--backend", "ray"], missing, capsys)


def test_a_plan_without_runs_takes_no_engine(capsys: pytest.CaptureFixture[str]) -> None:
    for name, given in (("backend", "dask"), ("address", "a:1"), ("workers", "2"), ("checkpoint", "runs")):
        told = f"{name}: got {given}, expected --runs as well"
        check_refused(["plan", *SMALL, f"--{name}", given], told, capsys)


def test_something_that_is_no_scheduler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.simulation._clusters._SECONDS_TO_ANSWER", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_hang_up, args=[server], daemon=True).start()
        engine = Engine(backend="dask", address=f"127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(InvalidValue, match="expected a running dask cluster"):
            _collect(engine=engine)


def _hang_up(server: socket.socket) -> None:
    """Close every connection at once."""
    with suppress(OSError):
        while True:
            server.accept()[0].close()


class _Emptied:
    """A Dask client whose cluster has no workers."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def nthreads(self) -> dict[str, int]:
        return {}

    def cancel(self, futures: list[Any]) -> None:
        assert len(futures) == 1
        self.cancelled.set()


def test_runs_are_given_up_if_no_worker_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_clusters, "_SECONDS_WITHOUT_WORKERS", 0.0)
    client, future = _Emptied(), Done(seed=1, process=1)
    with _clusters._giving_up(client, WeakSet([future])):
        assert client.cancelled.wait(30)
