"""Federations of real processes on loopback: whole studies, kills, sites that are gone, and no other network.

    python -m tests.federation.deployment whole                 # 4 sites, 100,000 users a round
    python -m tests.federation.deployment kills --kills 20      # SIGKILL of SuperLink, ServerApp and sites
    python -m tests.federation.deployment gone                  # a site is gone for good
    python -m tests.federation.deployment alone                 # in a network namespace; counts packets

It needs flwr (.venv-flower). Each task prints what it saw, and exits with status 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import psutil

from dpbandits.errors import DpbanditsError
from dpbandits.federation.flower import Server, StudyOutcome
from dpbandits.storage import open_store

from .deployed import ROOT, Deployment, Shape
from .reference import alone

WHOLE = Shape(
    trust="",
    sites=4,
    users=50_000,
    cohorts=(100_000, 100_000),
    actions=200,
    dimension=8,
    epsilon=3.0,
    delta=1e-6,
    minimum_share=0.7,
)


def check(right: bool, what: str) -> None:
    if not right:
        raise SystemExit(f"WRONG: {what}")


def used_once(deployment: Deployment) -> int:
    """Return how many users the ledgers have, after a check that none is there twice."""
    users = [user for rows in deployment.used().values() for user, _, _ in rows]
    check(len(users) == len(set(users)), "a user was used twice")
    return len(users)


def whole(options: argparse.Namespace) -> None:
    """A whole study in each trust model, compared with the protocol alone on the same rewards and noise."""
    for trust in options.trust:
        folder = Path(tempfile.mkdtemp(prefix="federation-"))
        shape = replace(WHOLE, trust=trust)
        if options.users:
            shape = replace(shape, users=2 * options.users, cohorts=(4 * options.users,) * 2)
        deployment, began = Deployment(folder, shape), time.monotonic()
        outcome = deployment.run()
        seconds = time.monotonic() - began
        check(outcome.ended, outcome.told)
        same, simulated, expected = alone(deployment)
        found = deployment.releases()
        for (phase, _, release), other in zip(found, expected, strict=True):
            close = np.allclose(release.means, other.means, rtol=0, atol=1e-9)
            check(close and release.reports == other.reports, f"another release in phase {phase}")
        active = same.active_actions.tolist()
        final = f"the study ended; actions left: {len(active):,}"
        check(outcome.told == final, f"{outcome.told}, expected {final}")
        agree = active == simulated.active_actions.tolist()
        vectors = [release.reports for _, _, release in found]
        print(
            f"{trust}: {vectors} vectors a round, {used_once(deployment):,} users used once, {seconds:.0f} s "
            f"in all; releases equal those of the protocol alone; {final}; the simulator's draw "
            f"{'leaves the same actions' if agree else 'leaves other actions'}",
            flush=True,
        )
        shutil.rmtree(folder)


@dataclass
class Killer:
    """Kills processes at random moments of a running study, and watches what is released."""

    deployment: Deployment
    rng: random.Random
    most: int
    killed: Counter[str] = field(default_factory=Counter)
    bodies: dict[int, bytes] = field(default_factory=dict)
    next_kill: float = 0.0

    def watch(self, server: Server) -> None:
        """Called about once a second by the command that runs the server."""
        state = self._seen(server)
        if state not in ("gathering", "collecting") or sum(self.killed.values()) >= self.most:
            return
        now = time.monotonic()
        if not self.next_kill:
            self.next_kill = now + self.rng.uniform(0, 12)
        if now >= self.next_kill:
            self.next_kill = 0.0
            self._kill(server)

    def _seen(self, server: Server) -> str:
        """Check that no release changes once it was seen; return the state of the latest attempt."""
        try:
            store = open_store(server.file.storage, read_only=True)
        except DpbanditsError:  # the driver has not created it yet
            return ""
        with store.transaction() as transaction:
            found = {one.phase: one.body for one in transaction.releases()}
            latest = transaction.latest()
        store.close()
        for phase, body in self.bodies.items():
            check(found.get(phase) == body, f"phase {phase} was released twice")
        self.bodies = found
        return "" if latest is None else latest.state

    def _kill(self, server: Server) -> None:
        fewest = min(self.killed[kind] for kind in ("superlink", "serverapp", "site"))
        kinds = [kind for kind in ("superlink", "serverapp", "site") if self.killed[kind] <= fewest + 1]
        kind = self.rng.choice(kinds)
        if kind == "site":
            number = self.rng.randrange(self.deployment.shape.sites)
            self.deployment.nodes[number].kill()  # its children end with it
            self.deployment.nodes.pop(number).wait()
            self.deployment.start_site(number)
        elif kind == "superlink":
            server.family.running["superlink"].kill()
        else:
            apps = psutil.Process(server.family.running["superexec"].pid).children()
            if not apps:
                return
            for one in apps:
                one.kill()
        self.killed[kind] += 1
        print(f"  killed the {kind} ({sum(self.killed.values())})", flush=True)


def kills(options: argparse.Namespace) -> None:
    """Studies during which processes are killed, until enough were."""
    rng, done, studies = random.Random(options.seed), Counter[str](), 0
    while sum(done.values()) < options.kills:
        studies += 1
        trust = ("central", "shuffle", "local")[studies % 3]
        folder = Path(tempfile.mkdtemp(prefix="federation-"))
        cohorts = (30 * options.sites,) * options.phases
        shape = Shape(trust=trust, sites=options.sites, users=400, cohorts=cohorts, minimum_share=0.6)
        shape = replace(shape, report_seconds=240, join_seconds=90)
        deployment = Deployment(folder, shape, seeded=False)
        killer = Killer(deployment, rng, most=min(10, options.kills - sum(done.values())))
        began = time.monotonic()
        with deployment.sites():
            outcome = deployment.server().run(killer.watch)
        check(outcome.ended, outcome.told)
        reports = [release.reports for _, _, release in deployment.releases()]
        enough = len(reports) == options.phases and min(reports) >= 0.6 * cohorts[0]
        check(enough, f"releases with {reports} reports")
        attempts = [attempt for _, attempt, _ in deployment.releases()]
        users = used_once(deployment)
        left_behind(folder)
        done += killer.killed
        print(
            f"study {studies} ({trust}): killed {dict(killer.killed)}, {time.monotonic() - began:.0f} s; "
            f"reports {reports}, attempts {attempts}, {users} users used once",
            flush=True,
        )
        shutil.rmtree(folder)
    print(f"{sum(done.values())} kills {dict(done)} in {studies} studies: nothing released twice", flush=True)


def left_behind(folder: Path) -> None:
    """Check that no process of a deployment is left."""
    end = time.monotonic() + 15  # a child notices within seconds that its parent was killed
    while (found := _processes(folder)) and time.monotonic() < end:
        time.sleep(0.5)
    check(not found, f"processes left behind: {found}")


def _processes(folder: Path) -> list[str]:
    every = [" ".join(one.info["cmdline"] or []) for one in psutil.process_iter(["cmdline"])]
    return [line for line in every if str(folder) in line]


def _without_a_site(shape: Shape, when: Callable[[Deployment], bool]) -> tuple[Deployment, StudyOutcome]:
    deployment = Deployment(Path(tempfile.mkdtemp(prefix="federation-")), shape, seeded=False)

    def watch(_server: Server) -> None:
        if 0 in deployment.nodes and when(deployment):
            deployment.nodes[0].kill()
            deployment.nodes.pop(0).wait()
            print("  site 0 is gone for good", flush=True)

    with deployment.sites():
        outcome = deployment.server().run(watch)
    left_behind(deployment.folder)
    return deployment, outcome


def gone(_options: argparse.Namespace) -> None:
    """A site that is gone for good: the study goes on if the minimum allows, and stops otherwise."""

    def after_first(deployment: Deployment) -> bool:
        try:
            return bool(deployment.releases())
        except DpbanditsError:  # the driver has not created the store yet
            return False

    shape = Shape(trust="central", sites=3, users=60, cohorts=(60, 60), report_seconds=45, join_seconds=20)
    enough, outcome = _without_a_site(shape, after_first)
    check(outcome.ended, outcome.told)
    print(f"{outcome.told}; reports {[one.reports for _, _, one in enough.releases()]}", flush=True)
    few = replace(shape, cohorts=(60, 120), minimum_share=0.9)
    stopped, outcome = _without_a_site(few, after_first)
    check(not outcome.ended, "the study ended without enough users")
    check(len(stopped.releases()) == 1, "something was released below the minimum")
    print(f"stopped: {outcome.told}", flush=True)
    for deployment in (enough, stopped):
        used_once(deployment)
        shutil.rmtree(deployment.folder)


_NAMESPACE = """set -e
ip link set lo up
ip link add outside type veth peer name far
for one in outside far; do echo 1 > /proc/sys/net/ipv6/conf/$one/disable_ipv6; ip link set $one up; done
ip addr add 10.99.0.1/24 dev outside
ip route add default via 10.99.0.2 dev outside
ip neigh add 10.99.0.2 lladdr 02:00:00:00:00:02 dev outside
exec "$@"
"""


def alone_on_loopback(options: argparse.Namespace) -> None:
    """A study in a network namespace. Every packet that leaves loopback is counted: there must be none."""
    if not options.inside:
        words = [sys.executable, "-m", "tests.federation.deployment", "alone", "--inside"]
        command = ["unshare", "--net", "sh", "-c", _NAMESPACE, "sh", *words]
        raise SystemExit(subprocess.run(command, cwd=ROOT, check=False).returncode)
    before = _packets()
    folder = Path(tempfile.mkdtemp(prefix="federation-"))
    deployment = Deployment(folder, Shape(trust="shuffle", sites=1, users=30, cohorts=(20,)), seeded=False)
    with deployment.sites():
        outcome = deployment.server().run()
    check(outcome.ended, outcome.told)
    left_behind(folder)
    after = _packets()
    check(after == before, f"{after - before} packets left loopback")
    _send_one()
    check(_packets() > after, "the counter does not count")
    print(f"{outcome.told}; no packet left loopback, and the counter counts", flush=True)
    shutil.rmtree(folder)


def _packets() -> int:
    shown = subprocess.run(
        ["ip", "-s", "link", "show", "outside"], capture_output=True, text=True, check=True
    )
    return _sent(shown.stdout)


def _sent(shown: str) -> int:
    """Return the packets in the line after `TX:` of `ip -s link`."""
    lines = shown.splitlines()
    index = next(number for number, line in enumerate(lines) if line.strip().startswith("TX:"))
    return int(lines[index + 1].split()[1])


def _send_one() -> None:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.sendto(b"x", ("192.0.2.1", 9))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=("whole", "kills", "gone", "alone"))
    parser.add_argument("--trust", nargs="+", default=["central", "shuffle", "local"])
    parser.add_argument("--users", type=int, help="whole: users of a site in a round (default 25,000)")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--sites", type=int, default=3, help="kills: sites of a study")
    parser.add_argument("--phases", type=int, default=4, help="kills: phases that ask users")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH")])
    )
    {"whole": whole, "kills": kills, "gone": gone, "alone": alone_on_loopback}[options.task](options)


if __name__ == "__main__":
    main()
