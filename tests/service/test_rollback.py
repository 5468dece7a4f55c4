"""Restoring a backup at any journal step either repeats a release byte for byte, or stops the study.

A whole study is run once, and all its files are copied whenever a store has changed. Then old stores are
restored and the study continues. Clients arrive in a different order, and keep their sealed reports.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sqlite3
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import Refused, StoreWentBack
from dpbandits.protocol import decode
from dpbandits.service.coordinator._watermark import Mark
from dpbandits.service.wire import KeyPair

from .crashing import CLIENTS, Crashing
from .helpers import Member
from .processes import ENVIRONMENT, Site

NAMES = ("coordinator", "shuffler")
IGNORED = ("enrol", "test", "read", "codes")  # steps that do not change the state of an attempt
Releases = dict[int, tuple[int, bytes]]


@dataclass
class Moment:
    """A copy of all files of a study at a journal step."""

    step: str
    directory: Path

    @property
    def releases(self) -> Releases:
        return releases_in(self.directory)

    def mark(self) -> Mark:
        return decode((self.directory / "coordinator.pem.progress").read_bytes(), Mark)


@dataclass
class Recorder:
    """A hook that copies all files at each step that has changed a store."""

    source: Path
    target: Path
    moments: list[Moment] = field(default_factory=list)
    _last: str = ""

    def __call__(self, step: str) -> None:
        if step.startswith(IGNORED) or step.startswith("begin") or not _begun(self.source):
            return
        content = step * step.startswith("release") + "".join(_dump(self.source, name) for name in NAMES)
        if content != self._last:
            self._last = content
            self.moments.append(Moment(step, self._copy(self.target / f"{len(self.moments):03}-{step}")))

    def _copy(self, directory: Path) -> Path:
        directory.mkdir(parents=True)
        for path in self.source.iterdir():
            if ".sqlite" not in path.name:
                shutil.copy(path, directory)
        for name in NAMES:
            _backup(self.source / f"{name}.sqlite", directory / f"{name}.sqlite")
        return directory


def _begun(directory: Path) -> bool:
    return (directory / "coordinator.pem.progress").exists()


def _dump(directory: Path, name: str) -> str:
    connection = sqlite3.connect(directory / f"{name}.sqlite")
    dump = "\n".join(connection.iterdump())
    connection.close()
    return dump


def _without_progress(dump: str) -> list[str]:
    """Return a dump without the records that are computed from the releases."""
    return [line for line in dump.splitlines() if not line.startswith('INSERT INTO "progress"')]


def _backup(source: Path, target: Path) -> None:
    old, new = sqlite3.connect(source), sqlite3.connect(target)
    old.backup(new)
    new.close()
    old.close()


def releases_in(directory: Path) -> Releases:
    connection = sqlite3.connect(directory / "coordinator.sqlite")
    rows = connection.execute("SELECT phase, attempt, body FROM releases").fetchall()
    connection.close()
    return {phase: (attempt, bytes(body)) for phase, attempt, body in rows}


@cache
def _moments(base: Path, trust: str, mode: str | None) -> list[Moment]:
    live = base / "live"
    live.mkdir()
    recorder = Recorder(live, base / "moments")
    played = Crashing(live, trust, mode, recorder)
    played.to_the_end()
    played.close()
    recorder.moments.append(Moment("end", recorder._copy(base / "moments" / "end")))
    return recorder.moments


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    bases = dict[Any, Path]()

    def record(trust: str, mode: str | None) -> list[Moment]:
        base = bases.setdefault((trust, mode), tmp_path_factory.mktemp(f"{trust}-{mode}"))
        return _moments(base, trust, mode)

    return record


@dataclass
class GoneOn:
    """The outcome of a study after its store was restored from a backup."""

    releases: Releases
    stopped: str


class Again(Crashing):
    """A deployment with enrolled clients, which stop once they are refused."""

    def enrol_all(self) -> None:
        pass

    def send(self, member: Member, body: bytes) -> None:
        with contextlib.suppress(Refused):
            super().send(member, body)


def go_on(directory: Path, trust: str, mode: str | None, *, other: bool, watched: bool = True) -> GoneOn:
    """Start from these files and run to the end. With `other`, clients arrive in a different order."""
    stopped, deployed = "", None
    try:
        deployed = Again(directory, trust, mode, lambda _step: None, watched=watched)
        deployed.order = range(CLIENTS)[::-1] if other else range(CLIENTS)
        if deployed.link is not None:
            deployed.link.shuffler.writer.run("read", lambda t: t.latest())
        deployed.to_the_end()
    except StoreWentBack as error:
        stopped = str(error)
    finally:
        if deployed is not None:
            deployed.close()
    return GoneOn(releases_in(directory), stopped)


def put_back(target: Path, now: Moment, old: Moment, names: tuple[str, ...]) -> Path:
    """Combine the current files with the old versions of these stores."""
    shutil.copytree(now.directory, target)
    for name in names:
        shutil.copy(old.directory / f"{name}.sqlite", target / f"{name}.sqlite")
    return target


def holds(now: Moment, after: GoneOn) -> bool:
    """Assert that no release has changed, and that the study has ended or reported why it cannot."""
    intent = now.mark().intent
    if intent is not None and intent.phase in after.releases:
        attempt, body = after.releases[intent.phase]
        if (attempt, _digest(body)) != (intent.attempt, intent.release):
            return False
    repeats = all(after.releases.get(phase, kept) == kept for phase, kept in now.releases.items())
    return repeats and (sorted(after.releases) == [1, 2] or bool(after.stopped))


def _digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


MODELS = [
    ("central", None, ("coordinator",)),
    ("local", None, ("coordinator",)),
    ("shuffle", "trusted", ("coordinator",)),
    ("shuffle", "trusted", ("shuffler",)),
    ("shuffle", "split", ("coordinator", "shuffler")),
]


@pytest.mark.parametrize(("trust", "mode", "names"), MODELS)
def test_a_store_that_is_put_back_after_the_end_stops_the_study(
    recorded: Any, tmp_path: Path, trust: str, mode: str | None, names: tuple[str, ...]
) -> None:
    moments = recorded(trust, mode)
    steps = {moment.step for moment in moments}
    assert {"ask-after-commit", "gathered-after-commit", "release-after-commit"} <= steps
    for number, old in list(enumerate(moments[:-2]))[::2]:
        directory = put_back(tmp_path / str(number), moments[-1], old, names)
        after = go_on(directory, trust, mode, other=True)
        assert holds(moments[-1], after), old
        before, end = _dump(old.directory, names[0]), _dump(moments[-1].directory, names[0])
        if _without_progress(before) == _without_progress(end):  # computed again from the same releases
            assert (after.stopped, _dump(directory, names[0])) == ("", end), old
        else:
            assert "an old copy of the store was restored" in after.stopped, old
            assert "the study was at phase" in after.stopped
            assert "new clients" in after.stopped
            assert "\n" not in after.stopped
        shutil.rmtree(directory)


@pytest.mark.parametrize(("trust", "mode", "names"), MODELS)
@pytest.mark.parametrize("back", [0, 2])
def test_a_store_that_is_put_back_while_the_study_runs_repeats_or_stops(
    recorded: Any, tmp_path: Path, trust: str, mode: str | None, names: tuple[str, ...], back: int
) -> None:
    moments = recorded(trust, mode)
    for number in _chosen(moments):
        now, old = moments[number], moments[max(0, number - back)]
        directory = put_back(tmp_path / str(number), now, old, names)
        after = go_on(directory, trust, mode, other=True)
        assert holds(now, after), (now, old)
        if back == 0:  # no rollback, only a crash: the study continues
            assert not after.stopped, now
        shutil.rmtree(directory)


@pytest.mark.parametrize(
    ("trust", "mode", "sealed_anew"),
    [
        ("central", None, False),
        ("central", None, True),
        ("local", None, False),
        ("shuffle", "trusted", False),
    ],
)
def test_if_all_is_put_back_the_same_reports_give_the_same_bytes(
    recorded: Any, tmp_path: Path, trust: str, mode: str | None, sealed_anew: bool
) -> None:
    """If the watermark is restored together with the store, drawing the same noise again protects clients."""
    moments = recorded(trust, mode)
    compared = set[int]()
    for number, old in ((number, moments[number]) for number in _chosen(moments)):
        directory = put_back(tmp_path / str(number), old, old, ())
        for sealed in directory.glob("client-*.sealed") if sealed_anew else ():
            sealed.unlink()
        after = go_on(directory, trust, mode, other=False)
        assert after.stopped == ""
        for phase in _decided(old):
            assert after.releases[phase] == moments[-1].releases[phase], old
            compared.add(phase)
        shutil.rmtree(directory)
    assert compared == {1, 2}


def _chosen(moments: list[Moment]) -> list[int]:
    """Return the last moment of each step, and every sixteenth of those of single clients."""
    last = {moment.step: k for k, moment in enumerate(moments)}.values()
    of_clients = ("join", "report")
    return [
        k for k, one in enumerate(moments) if k in last or (one.step.startswith(of_clients) and k % 16 == 0)
    ]


def _decided(old: Moment) -> list[int]:
    """Return the phases with a fixed cohort; the next cohort depends on which clients arrive first."""
    connection = sqlite3.connect(old.directory / "coordinator.sqlite")
    rows = connection.execute("SELECT phase FROM attempts WHERE state <> 'gathering'").fetchall()
    connection.close()
    return [phase for (phase,) in rows if phase <= 2]


def _first(moments: list[Moment], step: str) -> Moment:
    return next(moment for moment in moments if moment.step == step)


def test_without_the_watermark_these_tests_see_a_second_release(recorded: Any, tmp_path: Path) -> None:
    moments = recorded("central", None)
    old = _first(moments, "ask-after-commit")
    directory = put_back(tmp_path / "old", moments[-1], old, ("coordinator",))
    # The second release of phase 1 may lead to another plan of phase 2. Clients that have answered refuse it,
    # and then the study has too few clients to end.
    with contextlib.suppress(AssertionError):
        go_on(directory, "central", None, other=True, watched=False)
    after = GoneOn(releases_in(directory), "")
    assert after.releases[1] != moments[-1].releases[1]
    assert not holds(moments[-1], after)


def test_keys_are_derived_for_one_purpose_each() -> None:
    one, other = KeyPair.new(), KeyPair.new()
    keys = [pair.derived(purpose) for pair in (one, other) for purpose in ("a", "b")]
    assert len({*keys, one.private_bytes(), other.private_bytes()}) == 6
    assert one.derived("a") == one.derived("a")


def test_a_release_that_was_only_intended_is_made_as_intended(recorded: Any, tmp_path: Path) -> None:
    """The process is killed between writing the intent and the commit."""
    moments = recorded("central", None)
    now = _first(moments, "release-intended")
    intent = now.mark().intent
    assert intent is not None
    assert now.releases == {}
    directory = put_back(tmp_path / "again", now, now, ())
    after = go_on(directory, "central", None, other=True)
    assert after.stopped == ""
    assert _digest(after.releases[1][1]) == intent.release


def test_a_release_that_was_intended_is_not_made_of_other_reports(recorded: Any, tmp_path: Path) -> None:
    moments = recorded("central", None)
    now = _first(moments, "release-intended")
    directory = put_back(tmp_path / "fewer", now, now, ())
    connection = sqlite3.connect(directory / "coordinator.sqlite")
    connection.execute("DELETE FROM reports WHERE pseudonym = (SELECT min(pseudonym) FROM reports)")
    connection.commit()
    connection.close()
    after = go_on(directory, "central", None, other=True)
    assert after.releases == {}
    assert "the store closes phase 1 in attempt 1, with other reports" in after.stopped
    connection = sqlite3.connect(directory / "coordinator.sqlite")
    connection.execute("DELETE FROM reports")
    connection.commit()
    connection.close()
    after = go_on(directory, "central", None, other=True)
    assert after.releases == {}
    assert "with too few reports, but phase 1 was released" in after.stopped


def test_the_process_ends_with_one_line(tmp_path: Path) -> None:
    """Run `dpbandits serve` with its store, and then with an older copy of it."""
    site = Site(directory=tmp_path, trust="central", mode=None, cohorts=(6, 10))
    store = tmp_path / "study.sqlite"
    with site.running("first", site.coordinator()):
        site.wait_ready(site.url)
        _backup_once_begun(store, tmp_path / "older.sqlite")
    assert (tmp_path / "reports.pem.progress").stat().st_mode & 0o777 == 0o600
    connection = sqlite3.connect(store)
    connection.execute("UPDATE attempts SET state = 'playing'")
    connection.commit()
    connection.close()
    with site.running("second", site.coordinator()):
        site.wait_ready(site.url)
    for name in ("study.sqlite", "study.sqlite-wal", "study.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    shutil.copy(tmp_path / "older.sqlite", store)
    store.chmod(0o600)  # wider permissions have a warning of their own
    ended = subprocess.run(
        site.coordinator(), env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    told = ended.stderr.strip().splitlines()
    assert len(told) == 1
    where = "the store is at phase 1, attempt 1, gathering, but the study was at phase 1, attempt 1, playing"
    assert where in told[0]


def _backup_once_begun(store: Path, target: Path) -> None:
    """The driver journals the first attempt soon after the service is ready."""
    for _ in range(200):
        connection = sqlite3.connect(store)
        begun = connection.execute("SELECT count(*) FROM attempts").fetchone()[0]
        connection.close()
        if begun:
            _backup(store, target)
            return
        time.sleep(0.05)
    raise AssertionError("the study does not begin")
