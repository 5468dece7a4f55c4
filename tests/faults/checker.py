"""What must hold after a run, read from the databases alone and held against what was acknowledged.

Nothing of the stores' or the state machines' code is used: SQL, and the protocol's own functions.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from dpbandits.protocol import Plan, Release, Study, ask, decode, replay
from tests.service.helpers import released

from .network import Accepted
from .party import SameNoise, Site

Rows = list[Any]


@dataclass(frozen=True)
class Tables:
    """A party's database: a file, or a PostgreSQL database's URL."""

    where: Path | str

    @property
    def name(self) -> str:
        return "the database" if isinstance(self.where, str) else self.where.name

    def rows(self, query: str) -> Rows:
        if isinstance(self.where, str):
            with psycopg.connect(self.where, row_factory=dict_row) as connection:
                return list(connection.execute(query))
        with closing(sqlite3.connect(self.where)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(query).fetchall()


@dataclass
class Checker:
    """All that is wrong, in words."""

    site: Site
    accepted: dict[str, Accepted]
    seen: dict[int, tuple[int, bytes]]
    clients: set[str]
    noise_known: bool = True  # or the coordinator's is the operating system's
    postgres: str = ""  # the coordinator's database, if it is not a file

    def problems(self) -> list[str]:
        self._found = list[str]()
        self._here = Tables(self.postgres or self.site.database("coordinator"))
        self._reader = self._here if self.site.mode is None else Tables(self.site.database("shuffler"))
        self._nothing_left()  # before a database is opened, which may tidy it up
        for tables in {self._here, self._reader}:
            self._sound(tables)
        self._attempts = {
            (r["phase"], r["number"]): r["state"] for r in self._here.rows("SELECT * FROM attempts")
        }
        self._plans = {r["phase"]: decode(r["body"], Plan) for r in self._here.rows("SELECT * FROM plans")}
        self._released = {
            r["phase"]: (r["attempt"], decode(r["body"], Release))
            for r in self._here.rows("SELECT * FROM releases")
        }
        self._reported = self._ledger()
        self._nothing_lost()
        self._nobody_twice()
        self._one_release_each()
        self._the_end(self.site.study)
        return self._found

    def _must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._found.append(otherwise)

    def _nothing_left(self) -> None:
        """Reports that were deleted are in no file any more, neither a database nor its log."""
        traces = {trace for report in self.accepted.values() for trace in report.traces}
        for path in sorted(self.site.directory.glob("*.sqlite*")):
            content = path.read_bytes()
            left = sum(trace in content for trace in traces)
            self._must(left == 0, f"{path.name} still has {left} parts of reports")

    def _sound(self, tables: Tables) -> None:
        if isinstance(tables.where, Path):
            (verdict,) = tables.rows("PRAGMA integrity_check")
            self._must(verdict[0] == "ok", f"{tables.name} is damaged")
        left = len(tables.rows("SELECT * FROM reports"))
        self._must(left == 0, f"{tables.name} still has {left} reports")

    def _ledger(self) -> dict[tuple[int, int], dict[str, str]]:
        """Whose report the reader has accepted, by attempt, with its digest."""
        found = dict[tuple[int, int], dict[str, str]]()
        for row in self._reader.rows("SELECT * FROM ledger WHERE report IS NOT NULL"):
            found.setdefault((row["phase"], row["attempt"]), {})[row["pseudonym"]] = row["report"]
        return found

    def _nothing_lost(self) -> None:
        """What was acknowledged is in the ledger; its attempt was released with it, or was too small."""
        for name, report in self.accepted.items():
            kept = self._reported.get((report.phase, report.attempt), {}).get(name)
            self._must(kept == report.digest, f"the accepted report of {name[:8]} is lost")
        for key, state in self._attempts.items():
            names = self._reported.get(key, {})
            if state == "released":
                self._release(key, sorted(names))
            elif state == "failed":
                self._must(len(names) < self._minimum(key[0]), f"attempt {key} failed with {len(names)}")
            else:
                self._must(state == "done", f"attempt {key} is {state} at the end")

    def _minimum(self, phase: int) -> int:
        return self.site.study.privacy.minimum_reports(self._plans[phase].cohort)

    def _release(self, key: tuple[int, int], names: list[str]) -> None:
        """The release is what the protocol makes of exactly the accepted reports, and of enough of them."""
        attempt, release = self._released.get(key[0], (0, None))
        self._must(attempt == key[1], f"attempt {key} is released, but its phase by attempt {attempt}")
        if release is None:
            return
        self._must(release.reports == len(names), f"{key} counts {release.reports} of {len(names)} reports")
        self._must(release.reports >= self._minimum(key[0]), f"{key} is released with {release.reports}")
        if len(names) < self._minimum(key[0]):
            return
        if not self.noise_known and self.site.study.privacy.trust == "central":
            return  # the one model in which the coordinator draws noise of its own
        expected = released(self.site.study, self._plans[key[0]], names, SameNoise())
        expected = replace(expected, simulated=self.noise_known)
        self._must(release == expected, f"the release of {key} is not that of its reports")

    def _nobody_twice(self) -> None:
        rows = self._here.rows("SELECT * FROM ledger")
        for column in ("client", "pseudonym"):
            values = [row[column] for row in rows]
            self._must(len(set(values)) == len(values), f"a {column} is in the ledger twice")
        joined = {row["pseudonym"]: (row["phase"], row["attempt"]) for row in rows}
        self._must(set(joined) <= self.clients, "the ledger has somebody who is no client")
        counted = list[str]()
        for key, names in self._reported.items():
            self._must(
                all(joined.get(name) == key for name in names), f"{key} has a report of another attempt"
            )
            counted += names if self._attempts.get(key) == "released" else []
        self._must(len(set(counted)) == len(counted), "a client is counted twice")
        total = sum(release.reports for _, release in self._released.values())
        self._must(total == len(counted), f"{total} are counted, {len(counted)} reported")

    def _one_release_each(self) -> None:
        attempts = [key for key, state in self._attempts.items() if state == "released"]
        phases = [phase for phase, _ in attempts]
        self._must(len(set(phases)) == len(phases), "a phase was released twice")
        self._must(sorted(phases) == sorted(self._released), "releases and released attempts differ")
        for phase, (attempt, body) in self.seen.items():
            now = self._released.get(phase)
            self._must(now == (attempt, decode(body, Release)), f"the release of phase {phase} was changed")

    def _the_end(self, study: Study) -> None:
        try:
            state: Any = replay(study, [release for _, (_, release) in sorted(self._released.items())])
        except Exception as error:
            self._found.append(f"the releases cannot be replayed: {error}")
            return
        if not state.ended:  # all that is left may be to play: then nobody is asked and nothing released
            plan = ask(state)
            last = self._attempts.get((plan.phase, 1))
            self._must(not plan.reports and last == "done", "the study has not ended")
