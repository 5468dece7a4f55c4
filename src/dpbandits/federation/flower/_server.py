"""`Server`: runs the SuperLink and the ServerApp of a study until the study ends or stops.

A process that dies is started again. The SuperLink keeps its state in a database file, so runs and messages
survive. If the ServerApp dies, Flower ends its run. Then the server starts a new run, whose driver continues
from the store of the study.
"""

from __future__ import annotations

import fcntl
import logging
import socket
import ssl
import sys
import time
from collections.abc import Callable
from pathlib import Path

from dpbandits.errors import InvalidValue, Unreachable
from dpbandits.federation._study_file import FederationFile
from dpbandits.federation.flower._outcome import StudyOutcome
from dpbandits.federation.flower._processes import Apps, Family, prepared, program, secret_file

log = logging.getLogger("dpbandits.federation")

_APP = """[project]
name = "federation"
version = "0.0.0"
description = "The parties run the dpbandits that they have installed."
license = { text = "MIT" }

[tool.flwr.app]
publisher = "dpbandits"

[tool.flwr.app.components]
serverapp = "ignored:app"
clientapp = "ignored:app"
"""
_CODE = "app = None\n"  # this is never run: the parties run what they have installed
_COMMAND_SECONDS = 60.0
_START_SECONDS = 60.0
_GRACE_SECONDS = 30.0  # from the start of a run until its driver must hold the lock
# A driver may die this many times in a row within this time of its start.
_SHORT_SECONDS, _MOST_FAILURES = 60.0, 10


class Server:
    """The processes of the party that runs the SuperLink.

    Args:
        file: The study file.
        apps: The modules that run instead of Flower's programs. Only tests pass others.

    Raises:
        InvalidValue: The file names no terms, or there is no key of a site, or a key cannot be read.
    """

    def __init__(self, file: FederationFile, apps: Apps | None = None) -> None:
        file.agreed()
        if not file.sites:
            expected = "a folder with the public key of at least one site, NAME.pub"
            raise InvalidValue("federation.sites", "no key", expected)
        file.site_keys()  # fails now rather than in another process
        self.file = file
        self.family = Family(file.folder, prepared(file.folder, file.path, apps or Apps()))
        self._submitted, self._seen = 0.0, False  # when a run was started, and whether its driver was seen
        self._failures = 0

    def run(self, watch: Callable[[Server], None] = lambda _server: None) -> StudyOutcome:
        """Run the study until it ends or stops.

        Args:
            watch: Called about once a second.

        Returns:
            How the study ended.

        Raises:
            Unreachable: The SuperLink does not start, or the driver keeps dying.
        """
        StudyOutcome.forget(self.file.folder)
        try:
            self._start()
            while (outcome := StudyOutcome.read(self.file.folder)) is None:
                if "superlink" in self.family.revive():
                    self._wait_for_superlink()
                if self._driven():
                    self._seen = True
                elif self._must_submit():
                    self._count_failure()
                    self._submit()
                watch(self)
                time.sleep(1)
            return outcome
        finally:
            self.family.stop()

    def _start(self) -> None:
        file, secret = self.file, secret_file(self.file.folder)
        home = file.folder / "home"
        connection = f'address = "{file.address}"\nroot-certificates = "{file.authority}"\n'
        text = f'[superlink]\ndefault = "federation"\n\n[superlink.federation]\n{connection}'
        (home / "config.toml").write_text(text, encoding="utf-8")
        app = file.folder / "app"
        app.mkdir(exist_ok=True)
        (app / "pyproject.toml").write_text(_APP, encoding="utf-8")
        (app / "ignored.py").write_text(_CODE, encoding="utf-8")
        self.family.start("superlink", self._superlink(secret))
        self._wait_for_superlink()
        runtime = ["--runtime-api-address", file.address, "--root-certificates", str(file.authority)]
        secrets = ["--superexec-auth-secret-file", str(secret)]
        self.family.start("superexec", [program("flower-superexec"), *runtime, *secrets])
        self._submit()

    def _superlink(self, secret: Path) -> list[str]:
        file = self.file
        certificates = ["--ssl-certfile", file.certificate, "--ssl-keyfile", file.key]
        return [
            program("flower-superlink"),
            *("--host", file.host, "--port", str(file.port)),
            *map(str, certificates),
            *("--ssl-ca-certfile", str(file.authority)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
            *("--database", str(file.folder / "superlink.sqlite")),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        ]

    def _must_submit(self) -> bool:
        """Return whether the driver died or did not start in time, and has written no outcome."""
        late = self._seen or time.monotonic() > self._submitted + _GRACE_SECONDS
        return late and StudyOutcome.read(self.file.folder) is None

    def _count_failure(self) -> None:
        soon = time.monotonic() < self._submitted + _SHORT_SECONDS
        self._failures = self._failures + 1 if soon else 0
        if self._failures > _MOST_FAILURES:
            where = self.file.folder / "driver.log"
            raise Unreachable(f"the driver died {self._failures} times soon after its start; see {where}")

    def _submit(self) -> None:
        """Register the keys of sites that the SuperLink does not know, and start a run of the driver."""
        keys = [("supernode", "register", str(key), "federation") for key in self.file.sites]
        commands = (*keys, ("run", str(self.file.folder / "app"), "federation"))
        words = [word for command in commands for word in (*command, ";")]
        module = [sys.executable, "-m", "dpbandits.federation.flower._control"]
        failed = self.family.run("flwr", [*module, *words], _COMMAND_SECONDS)
        self._submitted, self._seen = time.monotonic(), False
        if failed:  # the SuperLink may have died just now; the next try follows
            log.warning("no run was started: %s", failed[-300:])

    def _driven(self) -> bool:
        """Return whether a driver runs. A driver holds a lock as long as its process lives."""
        with (self.file.folder / "driver.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return True
            return False

    def _wait_for_superlink(self) -> None:
        end = time.monotonic() + _START_SECONDS
        context = ssl.create_default_context(cafile=str(self.file.authority))
        while time.monotonic() < end:
            try:
                with (
                    socket.create_connection((self.file.host, self.file.port), 2) as plain,
                    context.wrap_socket(plain, server_hostname=self.file.host),
                ):
                    return
            except OSError:
                self.family.revive()
                time.sleep(0.3)
        where = self.file.folder / "superlink.log"
        raise Unreachable(f"the SuperLink at {self.file.address} does not start; see {where}")
