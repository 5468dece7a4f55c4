"""The checker: reads the databases after a run, and compares them with what clients were told.

It uses SQL and the functions of the protocol, but no code of the stores or the state machines.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from dpbandits.privacy import KeyedNoise
from dpbandits.protocol import Plan, Release, Study, ask, decode, replay
from dpbandits.service.wire import SHARED_MODES, hashed

from .claims import Claims, Told, release_of
from .lying_coordinator import problems_of
from .network import Accepted
from .party import SameNoise, Site

Rows = list[Any]


@dataclass(frozen=True)
class Tables:
    """The database of a party: an SQLite file, or the URL of a PostgreSQL database."""

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
    """Collects the problems of a run as text.

    Attributes:
        site: The configuration of the parties.
        accepted: The reports that were acknowledged to clients, by pseudonym.
        seen: The releases that the operator has seen, by phase, with their attempt.
        clients: The pseudonyms of all clients.
        noise_known: Whether the coordinator draws the noise of `SameNoise`, so that releases can be computed.
        postgres: The URL of the coordinator's database; empty for an SQLite file.
        claims: What each body of a client must lead to.
        told: The lies of the shuffler that the coordinator cannot detect.
    """

    site: Site
    accepted: dict[str, Accepted]
    seen: dict[int, tuple[int, bytes]]
    clients: set[str]
    noise_known: bool = True
    postgres: str = ""
    claims: Claims = field(default_factory=Claims)
    told: Told = field(default_factory=Told)

    def problems(self) -> list[str]:
        self._found = list[str]()
        self._here = Tables(self.postgres or self.site.database("coordinator"))
        self._reader = self._here if self.site.mode is None else Tables(self.site.database("shuffler"))
        self._nothing_left()  # first, because opening a database may clean it up
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
        self._nobody_fooled()
        self._the_end(self.site.study)
        return self._found

    @property
    def _may_be_kept(self) -> set[tuple[int, int]]:
        """Attempts whose sealed shares may remain at the shuffler.

        If a lying shuffler of a mode with shares closes a collection and says `failed`, nobody requests its
        sums, so it keeps the shares.
        """
        return self.told.failed if self.site.mode in SHARED_MODES else set()

    def _must(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._found.append(otherwise)

    def _nothing_left(self) -> None:
        """Check that no file, neither a database nor its log, contains parts of deleted reports."""
        traces = {
            trace
            for report in self.accepted.values()
            for trace in report.traces
            if (report.phase, report.attempt) not in self._may_be_kept
        }
        for path in sorted(self.site.directory.glob("*.sqlite*")):
            content = path.read_bytes()
            left = sum(trace in content for trace in traces)
            self._must(left == 0, f"{path.name} still has {left} parts of reports")

    def _sound(self, tables: Tables) -> None:
        if isinstance(tables.where, Path):
            (verdict,) = tables.rows("PRAGMA integrity_check")
            self._must(verdict[0] == "ok", f"{tables.name} is damaged")
        rows = tables.rows("SELECT phase, attempt FROM reports")
        left = sum((row["phase"], row["attempt"]) not in self._may_be_kept for row in rows)
        self._must(left == 0, f"{tables.name} still has {left} reports")

    def _ledger(self) -> dict[tuple[int, int], dict[str, str]]:
        """Return the digests of the reports that the reader has accepted, by attempt and pseudonym."""
        found = dict[tuple[int, int], dict[str, str]]()
        for row in self._reader.rows("SELECT * FROM ledger WHERE report IS NOT NULL"):
            found.setdefault((row["phase"], row["attempt"]), {})[row["pseudonym"]] = row["report"]
        for row in self._reader.rows("SELECT phase, attempt, pseudonym, digest FROM reports"):
            found.setdefault((row["phase"], row["attempt"]), {})[row["pseudonym"]] = row["digest"]
        return found

    def _nothing_lost(self) -> None:
        """Check that the ledger has all acknowledged reports and that attempts were released or too small."""
        for name, report in self.accepted.items():
            kept = self._reported.get((report.phase, report.attempt), {}).get(name)
            self._must(kept == report.digest, f"the accepted report of {name[:8]} is lost")
        for key, state in self._attempts.items():
            names = self._counted(key)
            if state == "released":
                self._release(key, names)
            elif state == "failed":
                few = len(names) < self._minimum(key[0]) or key in self.told.spoilt
                self._must(few, f"attempt {key} failed with {len(names)}")
            else:
                self._must(state == "done", f"attempt {key} is {state} at the end")

    def _counted(self, key: tuple[int, int]) -> list[str]:
        """Return the pseudonyms whose reports count: all accepted ones that no liar has made unreadable."""
        kept = self._reported.get(key, {})
        bad = {name for name, digest in kept.items() if self.claims.of(name, digest).fate == "left-out"}
        known = bad | self.told.left_out(key)
        self._must(self.told.without.get(key, set()) <= known, f"an honest report is left out of {key}")
        return sorted(set(kept) - known)

    def _nobody_fooled(self) -> None:
        """Check that honest clients reported only for genuine plans, or for plans that are as private."""
        for post in self.claims.posts.values():
            digest = hashlib.sha256(post.body).hexdigest()
            accepted = self.accepted.get(hashed(post.ticket))
            taken = accepted is not None and accepted.digest == digest
            problem = problems_of(post, self.site, self._plans, taken)
            self._must(not problem, problem)

    def _minimum(self, phase: int) -> int:
        return self.site.study.privacy.minimum_reports(self._plans[phase].cohort)

    def _release(self, key: tuple[int, int], names: list[str]) -> None:
        """Check that there are enough reports, and that the protocol computes the same release from them."""
        attempt, release = self._released.get(key[0], (0, None))
        self._must(attempt == key[1], f"attempt {key} is released, but its phase by attempt {attempt}")
        if release is None:
            return
        moved = self._moved(key)
        count = len(names) + (0 if moved is None else moved[1])
        self._must(release.reports == count, f"{key} counts {release.reports} of {count} reports")
        self._must(release.reports >= self._minimum(key[0]), f"{key} is released with {release.reports}")
        if len(names) < self._minimum(key[0]):
            return
        if not self.noise_known and self.site.study.privacy.trust == "central":
            return  # only in this model the coordinator itself draws noise
        claims = {name: self.claims.of(name, self._reported[key][name]) for name in names}
        expected = release_of(self.site.study, self._plans[key[0]], claims, SameNoise(), moved)
        expected = replace(expected, simulated=self.noise_known)
        self._must(release == expected, f"the release of {key} is not that of its reports")

    def _moved(self, key: tuple[int, int]) -> tuple[tuple[int, ...], int] | None:
        """Return what the shuffler added to the sums: its lie, and its noise where the plan asks for it.

        The noise is a function of the shuffler's key and of the set that it journalled. So this is the noise
        that it drew, whenever it was killed and how often it computed the sums.
        """
        moved, plan = self.told.moved.get(key), self._plans[key[0]]
        if not plan.asked_mechanism.needs_shares:
            return moved
        query = f"SELECT body FROM batches WHERE phase = {key[0]} AND attempt = {key[1]}"
        ((body,),) = self._reader.rows(query)
        where = [plan.study, plan.digest, str(key[0]), str(key[1]), json.loads(body)["checksum"]]
        secret = self.site.keys["shuffler"].derived("noise of a shuffler")
        noise = KeyedNoise(secret, [part.encode() for part in where])
        drawn = plan.asked_mechanism.third_party_noise(noise)
        assert drawn is not None
        offset, more = moved or ((0,) * plan.numbers, 0)
        return tuple(int(one) + by for one, by in zip(drawn, offset, strict=True)), more

    def _nobody_twice(self) -> None:
        rows = self._here.rows("SELECT * FROM ledger")
        for column in ("client", "pseudonym"):
            values = [row[column] for row in rows]
            self._must(len(set(values)) == len(values), f"a {column} is in the ledger twice")
        joined = {row["pseudonym"]: (row["phase"], row["attempt"]) for row in rows}
        self._must(set(joined) <= self.clients, "the ledger has a pseudonym of no client")
        counted = list[str]()
        for key, names in self._reported.items():
            self._must(
                all(joined.get(name) == key for name in names), f"{key} has a report of another attempt"
            )
            counted += self._counted(key) if self._attempts.get(key) == "released" else []
        self._must(len(set(counted)) == len(counted), "a client is counted twice")
        total = sum(release.reports for _, release in self._released.values())
        fewer = sum(
            more for key, (_, more) in self.told.moved.items() if self._attempts.get(key) == "released"
        )
        self._must(total == len(counted) + fewer, f"{total} are counted, {len(counted)} reported")

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
        if not state.ended:  # the last phase may only play, without reports and release
            plan = ask(state)
            last = self._attempts.get((plan.phase, 1))
            self._must(not plan.asks and last == "done", "the study has not ended")
