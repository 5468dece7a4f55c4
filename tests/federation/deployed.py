"""A federation of real processes on loopback, with TLS and node authentication."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from dpbandits.actions import Actions
from dpbandits.federation import federation_terms, read_federation
from dpbandits.federation.flower import Apps, Server, StudyOutcome
from dpbandits.protocol import Release, decode
from dpbandits.service.shared import LOOPBACK, self_signed
from dpbandits.service.wire import KeyPair, SignedTerms
from dpbandits.storage import open_store

ROOT = Path(__file__).resolve().parents[2]
SEEDED = Apps(server="tests.federation.seeded_server", client="tests.federation.seeded_client")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a deployment looks like."""

    trust: str
    sites: int = 2
    users: int = 60
    cohorts: tuple[int, ...] = (40, 40)
    actions: int = 12
    dimension: int = 3
    epsilon: float = 20.0
    delta: float = 1e-3
    minimum_share: float = 0.5
    report_seconds: float = 300.0
    join_seconds: float = 90.0


class Deployment:
    """The files of a federation in a folder, and its sites as processes."""

    def __init__(self, folder: Path, shape: Shape, *, seeded: bool = True) -> None:
        self.folder, self.shape, self.seeded = folder, shape, seeded
        self.nodes: dict[int, subprocess.Popen[bytes]] = {}
        server = folder / "server"
        (server / "sites").mkdir(parents=True)
        actions = Actions.generate("sphere", count=shape.actions, dimension=shape.dimension, rng=3)
        actions.save(folder / "actions.npz")
        self_signed(server / "tls.pem", server / "tls.key", LOOPBACK)
        KeyPair.new().save(server / "reports.pem")
        self.path = server / "study.toml"
        self._study(f"127.0.0.1:{free_port()}")
        address = write_terms(self.path)
        for number in range(shape.sites):
            self._site(number, address)

    def _study(self, address: str) -> None:
        shape = self.shape
        self.path.write_text(
            f"""[study]
actions = "../actions.npz"
horizon = 20000
[privacy]
trust = "{shape.trust}"
epsilon = {shape.epsilon}
delta = {0 if shape.trust == "local" else shape.delta}
minimum_share = {shape.minimum_share}
[schedule]
cohorts = {list(shape.cohorts)}
first_length = 60
growth = 4
[timing]
report_seconds = {shape.report_seconds}
join_seconds = {shape.join_seconds}
[storage]
url = "sqlite:///study.sqlite"
[keys]
reports = "reports.pem"
[federation]
address = "{address}"
certificate = "tls.pem"
key = "tls.key"
sites = "sites"
folder = "flower"
""",
            encoding="utf-8",
        )

    def _site(self, number: int, address: str) -> None:
        shape, folder = self.shape, self.folder / f"site-{number}"
        folder.mkdir()
        node = ec.generate_private_key(ec.SECP384R1())
        (folder / "node").write_bytes(node.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        public = node.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        (self.folder / "server/sites" / f"site-{number}.pub").write_bytes(public)
        (folder / "site.toml").write_text(
            f"""[site]
terms = "../server/terms.json"
data = "tests.federation.population:make"
ledger = "ledger.sqlite"
folder = "flower"
port = {free_port()}
[data]
actions = "{self.folder / "actions.npz"}"
site = {number}
count = {shape.users}
[superlink]
address = "{address}"
authority = "../server/tls.pem"
key = "node"
[consent]
trusts = ["{shape.trust}"]
epsilon = {shape.epsilon}
delta = {shape.delta}
""",
            encoding="utf-8",
        )

    def start_site(self, number: int) -> None:
        """Start a site in a process of its own; what it starts ends with it."""
        path = str(self.folder / f"site-{number}" / "site.toml")
        program = ["tests.federation.run_site"] if self.seeded else ["dpbandits.cli", "federate", "site"]
        command = [sys.executable, "-m", *program, path]
        with (self.folder / f"site-{number}.log").open("ab") as output:
            self.nodes[number] = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)

    def stop_site(self, number: int) -> None:
        process = self.nodes.pop(number)
        process.terminate()
        process.wait(20)

    @contextmanager
    def sites(self) -> Iterator[None]:
        for number in range(self.shape.sites):
            self.start_site(number)
        try:
            yield
        finally:
            for number in list(self.nodes):
                self.stop_site(number)

    def server(self) -> Server:
        return Server(read_federation(self.path), SEEDED if self.seeded else None)

    def run(self) -> StudyOutcome:
        with self.sites():
            return self.server().run()

    def releases(self) -> list[tuple[int, int, Release]]:
        """The phase, the attempt and the release of each phase."""
        store = open_store(read_federation(self.path).storage, read_only=True)
        with store.transaction() as transaction:
            found = [(one.phase, one.attempt, decode(one.body, Release)) for one in transaction.releases()]
        store.close()
        return found

    def used(self) -> dict[int, list[tuple[str, int, int]]]:
        """For each site the users in its ledger, with their phase and attempt."""
        found = {}
        for number in range(self.shape.sites):
            ledger = self.folder / f"site-{number}" / "ledger.sqlite"
            with sqlite3.connect(ledger) as connection:
                rows = connection.execute("SELECT user, phase, attempt FROM used ORDER BY user").fetchall()
            found[number] = rows
        return found


def write_terms(path: Path) -> str:
    """Write the terms, as `dpbandits federate terms` does, and name them in the study file."""
    file = read_federation(path)
    signed = SignedTerms.of(federation_terms(file.study, address=file.address, key=file.keys.public))
    (path.parent / "terms.json").write_bytes(msgspec.json.encode(signed))
    with path.open("a", encoding="utf-8") as text:
        text.write('[terms]\nfile = "terms.json"\n')
    return file.address
