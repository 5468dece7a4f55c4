"""`dpbandits demo`: run a whole deployed study on this machine, with its dashboard."""

from __future__ import annotations

import argparse
import contextlib
import signal
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbandits._checks import whole
from dpbandits.cli._parser import add_flag, add_value, whole_number
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import DpbanditsError, InvalidValue, Unreachable

if TYPE_CHECKING:
    from dpbandits.cli._demo_site import DemoSite
    from dpbandits.service.wire import StatusReply

DESCRIPTION = (
    "Run a whole study on this machine: a coordinator, a shuffler, an actuator and simulated phones, as "
    "processes that talk over TLS on loopback. The study looks for the best of 72 configurations of a "
    "cell, in the shuffle model. The address of its dashboard is printed. The command ends by itself "
    "after about two minutes, with a summary, and deletes its files unless --keep is given."
)
_SHARES = (0.3, 0.3, 0.4)  # of all phones, one share per phase
_CLIENT_PROCESSES = 2
_FEW = 100  # fewer phones than this run in one process
_RATE = "1500"  # rounds per second of the actuator
_PATIENCE = 60.0  # seconds for a party to start, and to stop


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    add_flag(parser, "--open", "open the dashboard in a browser")
    add_value(parser, "--clients", whole_number, "N", "number of simulated phones", 2000)
    add_value(parser, "--report-seconds", whole_number, "S", "how long phones have to report in a phase", 20)
    add_value(parser, "--keep", Path, "FOLDER", "keep all files, and a report, in this new folder")
    add_flag(parser, "--stay", "serve the dashboard after the end, until Ctrl-C")


def run(options: argparse.Namespace) -> int:
    """Run the demonstration."""
    require_service()
    phones = whole(40, 10**6, clients=options.clients)
    seconds = whole(2, 3600, report_seconds=options.report_seconds)
    cohorts = tuple(int(share * phones) for share in _SHARES)
    with _folder(options.keep) as folder, _interruptible():
        from dpbandits.cli._demo_site import DemoSite

        site = DemoSite.write(folder, cohorts, seconds)
        with contextlib.ExitStack() as ends:
            demo = _Demo(site, ends)
            demo.begin()
            _announce(site)
            if options.open:
                webbrowser.open(site.link)
            demo.play()
            _summarise(site, kept=options.keep)
            if options.stay:
                print("The dashboard stays until Ctrl-C.", flush=True)
                signal.pause()
    return 0


def _announce(site: DemoSite) -> None:
    print(f"dashboard  {site.link}")
    print("           Its certificate is self-signed, so a browser asks first. To pause or close the")
    print(f"           study, log in with the token in {site.folder / 'operator.token'}", flush=True)


@contextlib.contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="dpbandits-demo-") as name:
            yield Path(name)
        return
    try:
        kept.mkdir(parents=True)
    except FileExistsError:
        raise InvalidValue("keep", kept, "a folder that does not exist yet") from None
    yield kept.resolve()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C, so that all processes are stopped and the folder is deleted.

    SIGINT gets a handler as well, because processes that a shell starts in the background ignore it.
    """

    def stop(_signal: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, stop) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


class _Demo:
    """The processes of a demonstration. They are stopped when `ends` is closed."""

    def __init__(self, site: DemoSite, ends: contextlib.ExitStack) -> None:
        self._site = site
        self._ends = ends
        self._started = list[subprocess.Popen[bytes]]()
        ends.callback(_stop, self._started)
        self._gathered = set[tuple[int, int]]()
        self._waves = 0
        self._spare = 0  # phones that were started and have not joined yet

    def begin(self) -> None:
        """Start both parties and the actuator, and wait until the parties are ready."""
        site, trust = self._site, ["--certificates", str(self._site.folder / "certificate.pem")]
        from dpbandits.service.shared import Transport

        self._transport = self._ends.enter_context(Transport(certificates=site.folder / "certificate.pem"))
        self._start("shuffler", ["shuffler", str(site.folder / "shuffler.toml")])
        self._coordinator = self._start("coordinator", ["serve", str(site.study)])
        print(f"coordinator {site.url} and shuffler {site.shuffler_url} are starting", flush=True)
        until = time.monotonic() + _PATIENCE
        while self.status() is None:
            if self._coordinator.poll() is not None or time.monotonic() > until:
                raise self._failure("did not start")
            time.sleep(0.2)
        token = str(site.folder / "actuator.token")
        self._start("actuator", ["actuator", site.url, "--token-file", token, "--rate", _RATE, *trust])

    def play(self) -> None:
        """Let phones join every phase, until the study ends."""
        shown = ""
        while True:
            status = self.status()
            if self._coordinator.poll() is not None:
                raise self._failure("stopped before the study ended")
            if status is not None:
                self._look_for_phones(status)
                told = f"phase {status.phase}: {status.state}, {status.actions_left} options left"
                told = "the study has ended" if status.state == "ended" else told
                if told != shown:
                    shown = told
                    print(f"  {told}", flush=True)
                if status.state == "ended":
                    return
            time.sleep(0.5)

    def _failure(self, what: str) -> DpbanditsError:
        """Return an error with the end of the coordinator's log, which may be deleted with the folder."""
        lines = (self._site.folder / "coordinator.log").read_text(encoding="utf-8").splitlines()
        return DpbanditsError(f"the coordinator {what}: {lines[-1] if lines else 'its log is empty'}")

    def _look_for_phones(self, status: StatusReply) -> None:
        """Start the phones that an attempt needs. The phones of the next phase start while reports arrive."""
        place, cohorts = (status.phase, status.attempt), self._site.cohorts
        if status.state == "gathering" and place not in self._gathered:
            self._gathered.add(place)
            if status.cohort > self._spare:
                self._start_phones(status.cohort - self._spare)
            self._spare -= status.cohort
        elif status.state == "collecting" and self._spare == 0 and status.phase < len(cohorts):
            self._start_phones(cohorts[status.phase])

    def status(self) -> StatusReply | None:
        """Return the state of the study; None while the coordinator cannot be reached."""
        from dpbandits.service.shared import call
        from dpbandits.service.wire import StatusReply

        token = (self._site.folder / "operator.token").read_text(encoding="utf-8").strip()
        try:
            found: StatusReply = self._transport.hold(
                call("GET", f"{self._site.url}/v1/status", StatusReply, secret=token)
            )
        except Unreachable:
            return None
        return found

    def _start_phones(self, count: int) -> None:
        """Start processes with this many phones, which join as soon as a phase gathers clients."""
        from dpbandits.service.wire import KeyPair

        site, self._waves = self._site, self._waves + 1
        self._spare += count
        shuffler = str(KeyPair.load(site.folder / "shuffler.pem").public)
        certificate = str(site.folder / "certificate.pem")
        processes = _CLIENT_PROCESSES if count >= _FEW else 1
        sizes = [count // processes] * (processes - 1)
        for part, size in enumerate([*sizes, count - sum(sizes)]):
            codes, rewards = site.write_wave(self._waves, part, size)
            words = ["client", site.url, "--codes", str(codes), "--rewards", str(rewards)]
            words += ["--certificates", certificate, "--epsilon", "2", "--mode", "split"]
            words += ["--shuffler-url", site.shuffler_url, "--shuffler-key", shuffler]
            self._start(f"phones-{self._waves}-{part}", words)

    def _start(self, name: str, words: list[str]) -> subprocess.Popen[bytes]:
        """Start a process in a session of its own, so that Ctrl-C reaches only the demo, which stops it."""
        with (self._site.folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dpbandits.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._site.folder,
                start_new_session=True,
            )
        self._started.append(process)
        return process


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    """Tell all processes to stop, then wait for each of them."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _summarise(site: DemoSite, *, kept: Path | None) -> None:
    from dpbandits.service.config import read_stored_study

    found = read_stored_study(site.study).results()
    answer, stated = found.answer, found.guarantee
    if answer is None:
        print("best       unknown: the study was closed before its first release")
    else:
        ends = f"[{answer.low:.3f}, {answer.high:.3f}]"
        print(f"best       {answer.option}: mean reward {answer.estimate:.3f} {ends}")
        if answer.lead_over_current is not None:
            print(f"change     {answer.lead_over_current}")
        print(f"asked      {answer.participants:,} phones, each once, in {len(found.phases)} phases")
    if stated is not None:
        print(f"privacy    ({stated.epsilon:g}, {stated.delta:.2g})-DP for each phone; needs: {stated.needs}")
    if kept is None:
        print("All files are deleted now. `dpbandits demo --keep FOLDER` keeps them, with a report.")
        return
    from dpbandits.cli import main

    main(["report", str(site.study), "--out", str(kept / "study.html")])
