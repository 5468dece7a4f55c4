"""Start-up cost: CPU time of imports and small commands as ratios, and the peak memory of a client.

    python benchmarks/startup.py

CPU time (user and system) is compared with `python -c pass` for commands, and with importing the same parts
of NumPy and SciPy for the library. Each ratio is a median over pairs of runs. The client is a real
`dpbandits client` that takes part in a study without privacy, run by a real coordinator over TLS. Exits with
status 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from tests.service.processes import Site

NOTHING = ("-c", "pass")
LIBRARY = ("-c", "from dpbandits import *")
PARTS = "numpy", "scipy.linalg", "scipy.special", "scipy.optimize", "scipy.fft"
MEMORY = "import re; print('peak', re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
ENVIRONMENT.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode


def command(*words: str) -> tuple[str, ...]:
    """Return the arguments that run a command of dpbandits."""
    return ("-m", "dpbandits.cli", *words)


def seconds(arguments: Sequence[str]) -> float:
    """Return the CPU time of a Python process with these arguments."""
    with tempfile.TemporaryDirectory() as directory:  # for keys, which are written to new files
        words = [word.replace("DIRECTORY", directory) for word in arguments]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], env=ENVIRONMENT, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ratio(arguments: Sequence[str], baseline: Sequence[str], runs: int) -> float:
    """Return the median ratio of the CPU times of two processes that are started in turn."""
    seconds(arguments)  # the first run writes the bytecode
    return statistics.median(seconds(arguments) / seconds(baseline) for _ in range(runs))


def row(what: str, value: str, limit: str, good: bool) -> bool:
    """Print one line of the table."""
    print(f"{what:44}{value:>14}   at most {limit:8}{'ok' if good else 'TOO MUCH'}", flush=True)
    return good


def time_ratios(runs: int) -> bool:
    """Print the ratios of CPU time."""
    good = True
    commands = [("--help",), *(("keys", kind, "DIRECTORY/key") for kind in ("token", "sealing", "signing"))]
    for words in commands:
        found, name = ratio(command(*words), NOTHING, runs), " ".join(words[:2])
        good &= row(f"dpbandits {name} / python -c pass", f"{found:.1f}", "12", found <= 12)
    found = ratio(LIBRARY, ("-c", f"import {', '.join(PARTS)}"), runs)
    return row("from dpbandits import * / NumPy and SciPy", f"{found:.2f}", "1.3", found <= 1.3) and good


def client_memory() -> float:
    """Return the peak resident memory of a client that reports without privacy, in megabytes."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as running:
        site = Site(directory=Path(name), trust="none", mode=None, cohorts=(1,), minimum_share=1.0)
        running.enter_context(site.running("coordinator", site.coordinator()))
        site.wait_ready(site.url)
        (site.directory / "code").write_text(site.codes(1)[0])
        rewards = site.directory / "rewards.csv"
        np.savetxt(rewards, np.zeros((1, site.actions.count)), delimiter=",")
        running.enter_context(site.running("actuator", site.actuator()))
        words = ["client", site.url, "--codes", str(site.directory / "code"), "--rewards", str(rewards)]
        words += ["--certificates", str(site.certificate), "--accept", "none"]
        code = f"from dpbandits.cli import main; main({words!r}); {MEMORY}"
        done = subprocess.run(
            [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True
        )
        assert "1 of 1 reports were accepted" in done.stdout, done.stdout + done.stderr
        return int(done.stdout.split("peak")[1]) / 1024


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=15, help="pairs of processes per ratio")
    good = time_ratios(parser.parse_args().runs)
    peak = client_memory()
    good &= row("client that reports without privacy", f"{peak:.1f} MB", "60 MB", peak <= 60)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
