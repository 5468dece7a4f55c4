from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpbandits.storage import MemoryStore, Store
from dpbandits.storage.sql import SqlStore

from .postgres import new_database, server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SqlStore(f"sqlite:///{tmp_path / 'store.sqlite'}"),
        "postgresql": lambda: SqlStore(new_database(request.getfixturevalue("postgres"))),
    }
    opened = made[request.param]()
    yield opened
    opened.close()
