"""The stores that the tests of this folder run with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dpbandits.storage import MemoryStore, Store
from dpbandits.storage._sql import SqlStore

from .postgres import new_database


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
