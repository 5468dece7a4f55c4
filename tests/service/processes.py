"""The processes of a deployed study on loopback addresses; every wait has a timeout."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, Protocol

import httpx
import msgspec
import numpy as np

from dpbandits.actions import Actions
from dpbandits.service.config import read_study
from dpbandits.service.shared import self_signed
from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import KeyPair, SignedTerms, hashed, new_run, new_secret

HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

CLIENT_NOISE = "discrete-gaussian"  # in place of the servers' noise, the default of mode `verified`


def free_port() -> int:
    """Return a free port that the system gives to no outgoing connection while its server is down."""
    while True:
        port = 10_000 + secrets.randbelow(20_000)  # Linux gives 32,768 and more to connections
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Site:
    """The files, keys, ports and tokens of one deployment, in its own directory."""

    directory: Path
    trust: str
    mode: str | None
    cohorts: tuple[int, ...]
    horizon: int = 20_000
    minimum_share: float = 0.5
    report_seconds: float = 60.0
    join_seconds: float = 60.0
    poll_seconds: float = 0.5
    storage: str = "sqlite:///study.sqlite"
    noise: str | None = None
    programs: Path | None = None  # the folder of programs that start at once, see tests/forking.py
    actions: Actions = field(default_factory=lambda: Actions.generate("sphere", count=12, dimension=3, rng=3))

    def __post_init__(self) -> None:
        self.port, self.shuffler_port = free_port(), free_port()
        self.tokens = {role: new_secret() for role in ("operator", "actuator", "coordinator")}
        self.certificate = self.directory / "certificate.pem"
        self_signed(self.certificate, self.directory / "tls.pem")
        KeyPair.new().save(self.directory / "reports.pem")
        KeyPair.new().save(self.directory / "shuffler.pem")
        np.savetxt(self.directory / "actions.csv", self.actions.matrix, delimiter=",", fmt="%.17g")
        for role, token in self.tokens.items():
            (self.directory / f"{role}.token").write_text(token)
        self.study_file.write_text(self._study())
        context = read_study(self.study_file).context
        self.signed = SignedTerms.of(context.terms_for(new_run()))
        self.study = replace(context.study, terms=self.signed.digest)
        (self.directory / "terms.json").write_bytes(msgspec.json.encode(self.signed))
        self.study_file.write_text(self._study() + '[terms]\nfile = "terms.json"\n')
        self.shuffler_file.write_text(self._shuffler())

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def shuffler_url(self) -> str:
        return f"https://127.0.0.1:{self.shuffler_port}"

    @property
    def study_file(self) -> Path:
        return self.directory / "study.toml"

    @property
    def shuffler_file(self) -> Path:
        return self.directory / "shuffler.toml"

    def _study(self) -> str:
        shuffler = f"""
            [shuffler]
            url = "{self.shuffler_url}"
            key = "{KeyPair.load(self.directory / "shuffler.pem").public}"
            mode = "{self.mode}"
            token_file = "coordinator.token"
            certificates = "certificate.pem"
        """
        return f"""
            [study]
            actions = "actions.csv"
            horizon = {self.horizon}
            [privacy]
            trust = "{self.trust}"
            {f'noise = "{self.noise}"' if self.noise else ""}
            epsilon = 20.0
            delta = 1e-3
            minimum_share = {self.minimum_share}
            [schedule]
            cohorts = {list(self.cohorts)}
            first_length = 60
            growth = 8.0
            [timing]
            report_seconds = {self.report_seconds}
            join_seconds = {self.join_seconds}
            poll_seconds = {self.poll_seconds}
            [storage]
            url = "{self.storage}"
            [keys]
            reports = "reports.pem"
            {self._server(self.port)}
            [tokens]
            operator = "{hashed(self.tokens["operator"])}"
            actuator = "{hashed(self.tokens["actuator"])}"
            {shuffler if self.mode else ""}
        """

    def _shuffler(self) -> str:
        return f"""
            [shuffler]
            mode = "{self.mode or "trusted"}"
            [storage]
            url = "sqlite:///shuffler.sqlite"
            [keys]
            reports = "shuffler.pem"
            {self._server(self.shuffler_port)}
            [tokens]
            operator = "{hashed(self.tokens["operator"])}"
            coordinator = "{hashed(self.tokens["coordinator"])}"
        """

    def _server(self, port: int) -> str:
        return f"""
            [server]
            url = "https://127.0.0.1:{port}"
            port = {port}
            certificate = "certificate.pem"
            key = "tls.pem"
        """

    def seeded_coordinator(self, seed: int) -> list[str]:
        return [sys.executable, str(HERE / "seeded.py"), "coordinator", str(self.study_file), str(seed)]

    def coordinator(self) -> list[str]:
        return [sys.executable, "-m", "dpbandits.cli", "serve", str(self.study_file)]

    def shuffler(self) -> list[str]:
        return [sys.executable, "-m", "dpbandits.cli", "shuffler", str(self.shuffler_file)]

    def actuator(self) -> list[str]:
        token = str(self.directory / "actuator.token")
        command = ["-m", "dpbandits.cli", "actuator", self.url, "--token-file", token]
        return [sys.executable, *command, "--certificates", str(self.certificate)]

    def clients(self, codes: list[str], name: str = "clients", liars: int = 0) -> tuple[list[str], Path]:
        """Start seeded clients, the first of which lie; they write to the file which honest ones reported."""
        out = self.directory / f"{name}.out"
        (self.directory / f"{name}.codes").write_text("\n".join(codes))
        settings = {
            "url": self.url,
            "actions": str(self.directory / "actions.csv"),
            "codes": str(self.directory / f"{name}.codes"),
            "certificates": str(self.certificate),
            "terms": self.signed.digest,
            "out": str(out),
            "liars": liars,
        }
        (self.directory / f"{name}.json").write_text(json.dumps(settings))
        return [sys.executable, str(HERE / "seeded.py"), "clients", str(self.directory / f"{name}.json")], out

    @contextlib.contextmanager
    def running(self, name: str, command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process with its output in a file. It is ended, by its id, when the test ends or before."""
        with (self.directory / f"{name}.log").open("ab") as log:
            process = start(command if self.programs is None else _forked(command, self.programs), log)
            try:
                yield process
            finally:
                stop(process)

    def operator(self) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.tokens['operator']}"}
        return httpx.Client(verify=trusting(self.certificate), headers=headers, timeout=30)

    def wait_ready(self, url: str, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        with self.operator() as http:
            while time.monotonic() < until:
                with contextlib.suppress(httpx.TransportError):
                    if http.get(f"{url}/readyz").status_code == 200:
                        return
                time.sleep(0.1)
        raise AssertionError(f"{url} is not ready")

    def ask(self, method: str, path: str, **options: Any) -> Any:
        with self.operator() as http:
            reply = http.request(method, f"{self.url}{path}", **options)
            assert reply.status_code == 200, reply.text
            return reply.json()

    def codes(self, count: int) -> list[str]:
        return list(self.ask("POST", "/v1/enrolments", json={"count": count})["codes"])


class Stoppable(Protocol):
    """What `stop` needs of a process."""

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def wait(self, timeout: float) -> int: ...


def _forked(command: list[str], programs: Path) -> list[str]:
    """Return the command with the program that is a fork, in place of one that imports everything."""
    python, *rest = command
    assert python == sys.executable
    if rest[:2] == ["-m", "dpbandits.cli"]:
        return [str(programs / "dpbandits"), *rest[2:]]
    return [str(programs / "python"), *rest]


def start(command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdout=log, stderr=log, env=ENVIRONMENT)


def stop(process: Stoppable) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)
