"""Jobs for the tests of engines. Workers import this module, so it imports little."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Done:
    seed: int
    process: int


@dataclass(frozen=True, kw_only=True)
class Logged:
    """A job that notes its runs in a file. Seed `fatal` kills its process the first `deaths` times."""

    log: str
    seconds: float = 0.0
    fatal: int | None = None
    deaths: int = 0
    name: ClassVar[str] = "logged"
    outcome: ClassVar[type[Done]] = Done

    def run(self, seed: int) -> Done:
        with Path(self.log).open("a", encoding="ascii") as file:
            file.write(f"{seed}\n")
        if seed == self.fatal and self.started().count(seed) <= self.deaths:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(self.seconds)
        return Done(seed=seed, process=os.getpid())

    def started(self) -> list[int]:
        """The seeds of all runs that were started so far."""
        return [int(line) for line in Path(self.log).read_text().split()]


class LostError(Exception):
    """Stands for the loss of a worker."""


@dataclass(frozen=True, kw_only=True)
class Failing(Logged):
    """A job that loses its worker with every seed that is a multiple of three."""

    def run(self, seed: int) -> Done:
        found = super().run(seed)
        if seed % 3 == 0:
            time.sleep(0.05)  # the loss of a worker is noticed later than a result
            raise LostError
        return found
