"""Child processes, which are restarted if they die and which end with the process that started them."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from dpbandits.errors import InvalidValue
from dpbandits.federation.flower._versions import FILE, FLOWER

log = logging.getLogger("dpbandits.federation")

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
# Programs that a SuperExec could start and that a federation does not need.
_OTHERS = ("flwr-agentapp", "flwr-connector", "flwr-model", "flwr-simulation")
_RESTART_SECONDS, _LONGEST_SECONDS = 2.0, 10.0  # the first and the longest pause before a restart
_HEALTHY_SECONDS = 30.0  # a process that lived this long did not fail to start
_STOP_SECONDS = 2.0  # then a process is killed, which the database and the ledgers survive


@dataclass(frozen=True, kw_only=True)
class Apps:
    """The modules that run instead of Flower's programs. Only tests use others than the defaults.

    Attributes:
        server: Runs the ServerApp.
        client: Runs the ClientApp.
    """

    server: str = "dpbandits.federation.flower._serverapp"
    client: str = "dpbandits.federation.flower._clientapp"


def require_flower() -> None:
    """Check that Flower is installed in the version whose programs are replaced.

    Raises:
        InvalidValue: Flower is missing or has another version. The message says how to install it.
    """
    remedy = f"flwr {FLOWER}: pip install '.[flower]' in an environment of its own"
    try:
        found = version("flwr")
    except PackageNotFoundError:
        raise InvalidValue("flwr", "no such package", remedy) from None
    if found != FLOWER:
        raise InvalidValue("flwr", found, remedy)


def program(name: str) -> str:
    """Return the path of one of Flower's programs in this environment."""
    return str(Path(sys.executable).parent / name)


def prepared(folder: Path, file: Path, apps: Apps) -> dict[str, str]:
    """Create the folder of Flower's files, and return the environment of its processes.

    The first directory of PATH has the programs that a SuperExec may start. They run installed modules, and
    refuse every other kind of app. The environment switches off Flower's telemetry, its check for updates and
    its installation of packages.

    Args:
        folder: The folder.
        file: The study file or the site's file.
        apps: The modules that run instead of Flower's programs.

    Returns:
        The environment.
    """
    programs = folder / "programs"
    programs.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "home").mkdir(mode=0o700, exist_ok=True)
    for name, module in (("flwr-serverapp", apps.server), ("flwr-clientapp", apps.client)):
        _script(programs / name, f'exec "{sys.executable}" -m {module} "$@"')
    for name in _OTHERS:
        _script(programs / name, f"echo '{name} is not part of a federation' >&2; exit 1")
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PYTHONPATH", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "PATH": f"{programs}:/usr/bin:/bin",
        "FLWR_HOME": str(folder / "home"),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        FILE: str(file),
    }


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o700)


def secret_file(folder: Path) -> Path:
    """Create a file with a new secret, which a SuperExec and its SuperLink or SuperNode share."""
    path = folder / "superexec.secret"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(os.urandom(32))
    return path


@dataclass
class Family:
    """Child processes by name. Each has its own process group, so that its children end with it.

    Attributes:
        folder: The folder of the logs. The output of each process is appended to NAME.log.
        environment: The environment of the processes.
        commands: The command of each process.
        running: The processes that were started, which may have died since.
    """

    folder: Path
    environment: Mapping[str, str]
    commands: dict[str, Sequence[str]] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _started: dict[str, float] = field(default_factory=dict)
    _pauses: dict[str, float] = field(default_factory=dict)

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start a process. `revive` starts it again if it dies.

        Args:
            name: The name of the process.
            command: The program and its arguments.
        """
        self.commands[name] = command
        self._started[name] = time.monotonic()
        with (self.folder / f"{name}.log").open("ab") as output:
            self.running[name] = subprocess.Popen(
                command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    def run(self, name: str, command: Sequence[str], seconds: float) -> str:
        """Run a program to its end, and append its output to NAME.log.

        Args:
            name: The name of the log.
            command: The program and its arguments.
            seconds: The program is killed after this time.

        Returns:
            Why the program failed; empty if it succeeded.
        """
        try:
            done = subprocess.run(
                command,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {seconds:g} s"
        with (self.folder / f"{name}.log").open("a", encoding="utf-8") as output:
            output.write(done.stdout)
        return done.stdout.strip() or "failed" if done.returncode else ""

    def revive(self) -> list[str]:
        """Start the processes that have died again.

        There is a pause before each restart. The pauses of a process that keeps dying soon after its start
        become longer. For example, a SuperNode ends soon if its key is not yet registered at the SuperLink.

        Returns:
            The names of the processes that were started.
        """
        died = [name for name, process in self.running.items() if process.poll() is not None]
        ready = [name for name in died if time.monotonic() > self._started[name] + self._pause(name)]
        for name in ready:
            log.warning("%s ended with status %s and is restarted", name, self.running[name].returncode)
            _end_group(self.running[name])
            lived = time.monotonic() - self._started[name]
            longer = min(_LONGEST_SECONDS, 1.5 * self._pause(name))
            self._pauses[name] = _RESTART_SECONDS if lived > _HEALTHY_SECONDS else longer
            self.start(name, self.commands[name])
        return ready

    def _pause(self, name: str) -> float:
        return self._pauses.get(name, _RESTART_SECONDS)

    def stop(self) -> None:
        """End all processes and their children."""
        for process in self.running.values():
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + _STOP_SECONDS
        for process in self.running.values():
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
            _end_group(process)
            process.wait()
        self.running.clear()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end_with_parent() -> None:
    """Ask Linux to kill this new child process when its parent dies, even if the parent is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_DEATH_SIGNAL, signal.SIGKILL)
