"""The watermark, which records how far a study has got: what it accepts, how it is written, its effect."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from dpbandits.errors import InvalidValue, StorageError, StoreWentBack
from dpbandits.privacy import SecureNoise
from dpbandits.service.config import read_shuffler, read_study
from dpbandits.service.coordinator import WatchedStore, Watermark, coordinator_app
from dpbandits.service.coordinator._watermark import Intent, Mark, Position
from dpbandits.service.shared import RoleTokens
from dpbandits.service.wire import hashed, new_secret
from dpbandits.storage import Attempt, MemoryStore

from .helpers import Deployment, small_study
from .live import served
from .processes import Site

COLLECTING = Position(phase=1, attempt=1, state="collecting")
RELEASED = Position(phase=1, attempt=1, state="released")


@pytest.fixture
def watermark(tmp_path: Path) -> Watermark:
    return Watermark(tmp_path / "progress", "study")


def _store(attempt: Attempt | None) -> MemoryStore:
    store = MemoryStore()
    if attempt is not None:
        with store.transaction() as transaction:
            transaction.add_attempt(attempt)
    return store


def test_positions_follow_the_life_of_a_study() -> None:
    order = [
        Position(),
        Position(phase=1, attempt=1, state="gathering"),
        Position(phase=1, attempt=1, state="playing"),
        COLLECTING,
        Position(phase=1, attempt=1, state="closed"),
        Position(phase=1, attempt=1, state="failed"),
        Position(phase=1, attempt=2, state="gathering"),
        Position(phase=2, attempt=1, state="gathering"),
    ]
    assert sorted(order, key=lambda position: position.rank) == order


def test_a_store_is_followed_and_an_older_one_refused(watermark: Watermark) -> None:
    store = WatchedStore(_store(None), watermark)
    gathering = Attempt(phase=1, number=1, state="gathering")
    with store.transaction() as transaction:
        assert transaction.latest() is None
    assert watermark.read() == Mark(owner="study")
    with store.transaction() as transaction:
        transaction.add_attempt(gathering)
    with store.transaction() as transaction:
        transaction.change_attempt(gathering, Attempt(phase=1, number=1, state="playing"))
    mark = watermark.read()
    assert mark is not None
    assert str(mark.furthest) == "phase 1, attempt 1, playing"
    older = WatchedStore(_store(gathering), watermark)
    told = "the store is at phase 1, attempt 1, gathering, but the study was at phase 1, attempt 1, playing"
    with pytest.raises(StoreWentBack, match=told), older.transaction():
        raise AssertionError("entered")
    empty = WatchedStore(_store(None), watermark)
    with pytest.raises(StoreWentBack, match="the store is at the beginning"), empty.transaction():
        pass


def test_what_is_undone_is_not_noted(watermark: Watermark) -> None:
    store = WatchedStore(_store(None), watermark)
    with store.transaction():
        pass
    with contextlib.suppress(RuntimeError), store.transaction() as transaction:
        transaction.add_attempt(Attempt(phase=1, number=1, state="gathering"))
        raise RuntimeError
    assert watermark.read() == Mark(owner="study")


def test_a_store_that_has_begun_needs_its_file(watermark: Watermark) -> None:
    store = WatchedStore(_store(Attempt(phase=1, number=1, state="collecting")), watermark)
    with (
        pytest.raises(StoreWentBack, match=r"there is no progress file .*progress: copy it from"),
        store.transaction(),
    ):
        pass
    assert watermark.read() is None


def test_the_file_of_another_study_is_refused(watermark: Watermark) -> None:
    watermark.seen(COLLECTING)
    with pytest.raises(InvalidValue, match="each study has its own key"):
        Watermark(watermark.path, "other").read()
    watermark.path.write_text("{}")
    with pytest.raises(InvalidValue, match="a file that dpbandits wrote"):
        watermark.read()


def test_a_file_with_an_unknown_state_is_refused(watermark: Watermark) -> None:
    watermark.path.write_text('{"owner":"study","furthest":{"phase":1,"attempt":1,"state":"ended"}}')
    told = r"progress file: got .*progress, expected .*state: got 'ended', expected one of gathering, "
    store = WatchedStore(_store(Attempt(phase=1, number=1, state="collecting")), watermark)
    with pytest.raises(InvalidValue, match=told), store.transaction():
        raise AssertionError("entered")


def test_the_file_is_replaced_as_a_whole(watermark: Watermark) -> None:
    draft = watermark.path.with_name("progress.new")
    draft.write_text("of a process that died")
    watermark.seen(COLLECTING)
    assert not draft.exists()
    assert watermark.path.stat().st_mode & 0o777 == 0o600
    watermark.seen(Position(phase=1, attempt=1, state="playing"))
    assert watermark.read() == Mark(owner="study", furthest=COLLECTING)


def test_an_unwritable_place_is_an_error(tmp_path: Path) -> None:
    nowhere = Watermark(tmp_path / "missing" / "progress", "study")
    with pytest.raises(StorageError, match=r"No such file or directory; \[keys\] progress must name"):
        nowhere.seen(COLLECTING)


def test_a_phase_is_released_once_and_as_intended(watermark: Watermark) -> None:
    first = Intent(phase=2, attempt=1, reports="r", release="s")
    watermark.intend(first)
    watermark.intend(first)
    others: tuple[dict[str, Any], ...] = ({"release": "x"}, {"reports": "x"}, {"attempt": 2}, {"phase": 1})
    for other in others:
        with pytest.raises(
            StoreWentBack, match="phase 2 was released, or about to be, in attempt 1, according to"
        ):
            watermark.intend(replace(first, **other))
    with pytest.raises(StoreWentBack, match="with too few reports"):
        watermark.fail(2, 1)
    watermark.fail(3, 1)
    following = Intent(phase=3, attempt=2, reports="r", release="s")
    watermark.seen(RELEASED)
    watermark.intend(following)
    assert watermark.read() == Mark(owner="study", furthest=RELEASED, intent=following)


def test_many_workers_share_the_file(tmp_path: Path) -> None:
    def work(start: int) -> None:
        mine = Watermark(tmp_path / "progress", "study")
        for attempt in range(start, 60, 4):
            mine.seen(Position(phase=1, attempt=attempt, state="failed"))
            if start == 0:
                mine.intend(Intent(phase=attempt + 1, attempt=1, reports="r", release="s"))

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    mark = Watermark(tmp_path / "progress", "study").read()
    assert mark is not None
    assert mark.furthest.attempt == 59
    assert mark.intent == Intent(phase=57, attempt=1, reports="r", release="s")


def test_a_service_whose_store_goes_back_refuses_and_stays_alive(watermark: Watermark) -> None:
    study, token = small_study("central"), new_secret()
    mine = Watermark(watermark.path, study.digest)
    deployed = Deployment(study=study, mode=None, noise=SecureNoise(), watermark=mine)
    deployed.advance()
    (member,) = deployed.enrolled(1)
    app = coordinator_app(deployed.coordinator, RoleTokens(hashes={"operator": hashed(token)}))
    with served(app) as url, httpx.Client(base_url=url) as http:

        def task() -> int:
            headers = {"Authorization": f"Bearer {member.token}"}
            return http.post("/v1/tasks", json={"pseudonym": member.pseudonym}, headers=headers).status_code

        assert http.get("/readyz").status_code == 200
        mine.seen(COLLECTING)  # the store, which is still gathering, is now behind
        assert http.get("/healthz").status_code == 200
        assert http.get("/readyz").status_code == 503
        assert task() == 503
        with pytest.raises(StoreWentBack):
            deployed.coordinator.advance()
        headers = {"Authorization": f"Bearer {token}"}
        assert http.get("/v1/status", headers=headers).status_code == 503
        assert http.get("/metrics", headers=headers).status_code == 200


def test_the_file_is_next_to_the_key_unless_it_is_named(tmp_path: Path) -> None:
    site = Site(directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(6, 10))
    file = read_study(site.study_file)
    assert file.context.watermark is not None
    assert file.context.watermark.path == tmp_path / "reports.pem.progress"
    assert file.context.watermark.owner == file.context.study.digest
    assert read_shuffler(site.shuffler_file).watermark.path == tmp_path / "shuffler.pem.progress"
    named = site.study_file.read_text().replace("[keys]", '[keys]\nprogress = "elsewhere/progress"')
    site.study_file.write_text(named)
    again = read_study(site.study_file).context.watermark
    assert again is not None
    assert again.path == tmp_path / "elsewhere" / "progress"
