"""The files of `dpbandits demo`: a study of a mobile network, its keys and tokens, and simulated rewards."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.cli._serve_example import free_port

SCHEDULERS = {"round-robin": 0.0, "waterfilling": 0.02, "fair": 0.06}
TILTS, POWERS, SHARES = (2, 4, 6, 8), (10, 20, 40), (30, 50)
_STUDY = """# The study of `dpbandits demo`: which configuration of a cell serves phones best?
[options]
table = "options.csv"
current = {current}

[study]
horizon = 12000

[privacy]
trust = "shuffle"
epsilon = 2.0
delta = 1e-6
minimum_share = 0.5

[schedule]
cohorts = {cohorts}
first_length = 300
growth = 4.0

[timing]
report_seconds = {report_seconds}
poll_seconds = {poll_seconds}

[storage]
url = "sqlite:///study.sqlite"

[keys]
reports = "coordinator.pem"

{server}

[tokens]
operator = "{operator}"
actuator = "{actuator}"
reader = "{reader}"

[shuffler]
url = "{shuffler_url}"
key = "{shuffler_key}"
mode = "split"
token_file = "shuffler.token"
certificates = "certificate.pem"
"""
_SERVER = """[server]
port = {port}
certificate = "certificate.pem"
key = "tls.pem"

[limits]
requests_per_second = 10000
burst = 100000"""
CURRENT = "round-robin, tilt 2°, 20 W, 30 % broadband"


@dataclass(frozen=True, kw_only=True)
class DemoSite:
    """A folder with everything that the processes of the demonstration need.

    Attributes:
        folder: The folder.
        cohorts: The number of phones that each phase asks.
        report_seconds: How long phones have to report.
        url: The address of the coordinator.
        shuffler_url: The address of the shuffler.
        link: The address of the dashboard, with the token of a reader.
    """

    folder: Path
    cohorts: tuple[int, ...]
    report_seconds: int
    url: str
    shuffler_url: str
    link: str

    @property
    def study(self) -> Path:
        """The study file."""
        return self.folder / "study.toml"

    @staticmethod
    def write(folder: Path, cohorts: tuple[int, ...], report_seconds: int) -> DemoSite:
        """Write all files into a folder.

        Args:
            folder: An empty folder.
            cohorts: The number of phones that each phase asks.
            report_seconds: How long phones have to report.

        Returns:
            The folder with its addresses.
        """
        from dpbandits.service.shared import self_signed
        from dpbandits.service.wire import KeyPair, hashed, new_secret, write_private

        folder.chmod(0o700)  # it contains the store and the keys
        ports, secrets = (free_port(), free_port()), dict[str, str]()
        self_signed(folder / "certificate.pem", folder / "tls.pem")
        keys = {name: KeyPair.new() for name in ("coordinator", "shuffler")}
        for name, pair in keys.items():
            pair.save(folder / f"{name}.pem")
        for role in ("operator", "actuator", "reader", "shuffler"):
            secrets[role] = new_secret()
            write_private(folder / f"{role}.token", secrets[role].encode() + b"\n")
        hashes = {role: hashed(secret) for role, secret in secrets.items()}
        url, shuffler_url = (f"https://127.0.0.1:{port}" for port in ports)
        link = f"{url}/dashboard/open?token={secrets['reader']}"
        site = DemoSite(
            folder=folder,
            cohorts=cohorts,
            report_seconds=report_seconds,
            url=url,
            shuffler_url=shuffler_url,
            link=link,
        )
        site._write_options()
        text = _study_file(site, ports[0], hashes, str(keys["shuffler"].public))
        site.study.write_text(text, encoding="utf-8")
        (folder / "shuffler.toml").write_text(_shuffler_file(ports[1], hashes["shuffler"]), encoding="utf-8")
        return site

    def _write_options(self) -> None:
        with (self.folder / "options.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["name", "scheduler", "tilt", "power", "broadband"])
            rows.writerows((_name(one), *one) for one in _options())

    def write_wave(self, wave: int, part: int, phones: int) -> tuple[Path, Path]:
        """Write enrolment codes and rewards of some phones, and add the hashes of the codes to the store.

        Args:
            wave: The number of the group of phones.
            part: The number of the process that runs these phones, within its group.
            phones: The number of phones.

        Returns:
            The file with the codes, and the file with the rewards.
        """
        from dpbandits.service.config import read_stored_study
        from dpbandits.service.wire import hashed, new_secret, write_private
        from dpbandits.storage import open_store

        codes, rewards = (self.folder / f"{name}-{wave}-{part}" for name in ("codes", "rewards"))
        rewards = rewards.with_suffix(".npz")
        rng = np.random.default_rng([wave, part])
        np.savez(rewards, actions=_rewards(phones, rng))
        secrets = [new_secret() for _ in range(phones)]
        write_private(codes, "".join(f"{secret}\n" for secret in secrets).encode())
        store = open_store(read_stored_study(self.study).storage)
        try:
            with store.transaction() as transaction:
                transaction.add_codes([hashed(secret) for secret in secrets])
        finally:
            store.close()
        return codes, rewards


def _options() -> list[tuple[str, int, int, int]]:
    return list(product(SCHEDULERS, TILTS, POWERS, SHARES))


def _name(one: tuple[str, int, int, int]) -> str:
    return f"{one[0]}, tilt {one[1]}°, {one[2]} W, {one[3]} % broadband"


def _rewards(phones: int, rng: np.random.Generator) -> FloatArray:
    """Return simulated mean rewards: linear in the features, plus an offset per phone and small errors."""
    means = np.array([SCHEDULERS[s] + 0.012 * t + 0.0012 * p - 0.001 * b for s, t, p, b in _options()])
    offsets = rng.normal(scale=0.05, size=(phones, 1))
    return np.clip(means + offsets + rng.normal(scale=0.03, size=(phones, len(means))), -1, 1)


def _study_file(site: DemoSite, port: int, hashes: dict[str, str], shuffler_key: str) -> str:
    return _STUDY.format(
        current=json.dumps(CURRENT, ensure_ascii=False),
        cohorts=list(site.cohorts),
        report_seconds=site.report_seconds,
        poll_seconds=min(8.0, site.report_seconds / 2.5),  # phones poll more than once before the deadline
        server=_SERVER.format(port=port),
        shuffler_url=site.shuffler_url,
        shuffler_key=shuffler_key,
        **{role: hashes[role] for role in ("operator", "actuator", "reader")},
    )


def _shuffler_file(port: int, coordinator: str) -> str:
    return f"""[shuffler]
mode = "split"

[storage]
url = "sqlite:///shuffler.sqlite"

[keys]
reports = "shuffler.pem"

{_SERVER.format(port=port)}

[tokens]
coordinator = "{coordinator}"
"""
