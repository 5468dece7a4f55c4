"""Shared by all tests: one BLAS thread, Hypothesis without deadlines, workers, programs and databases."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import pytest
from hypothesis import settings

from .storage.postgres import new_database, server

settings.register_profile("dpbandits", deadline=None, derandomize=True)
settings.load_profile("dpbandits")


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be missing
def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers for `-n auto`: one more than cores, since tests of real processes wait."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(scope="session")
def programs() -> Iterator[Path]:
    """The folder of programs that start at once, see tests/forking.py."""
    if not hasattr(os, "pidfd_open"):
        pytest.skip("tests/forking.py needs Linux")
    from .forking import programs

    with tempfile.TemporaryDirectory() as folder, programs(Path(folder)) as found:
        yield found


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def postgres_url(postgres: str) -> str:
    """An empty PostgreSQL database."""
    return new_database(postgres)


@pytest.fixture(params=["sqlite", "postgresql"])
def sql_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return new_database(request.getfixturevalue("postgres"))
