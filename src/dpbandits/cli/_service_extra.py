"""What the commands of the deployed system share: the packages that they need."""

from __future__ import annotations

import importlib
from pathlib import Path

from dpbandits.errors import InvalidValue


def require_service() -> None:
    """Say in one line what is missing, before anything is imported that needs it."""
    for package in (
        "starlette",
        "uvicorn",
        "httpx",
        "cryptography",
        "sqlalchemy",
        "prometheus_client",
        "opendp",
    ):
        try:
            importlib.import_module(package)
        except ImportError:
            remedy = f"an installed {package}: pip install 'dpbandits[service]'"
            raise InvalidValue(package, "no such package", remedy) from None


def read_secret(path: Path) -> str:
    """A token from a file of one line."""
    if not path.is_file():
        raise InvalidValue("token-file", path, "an existing file with a token (dpbandits keys token)")
    return path.read_text(encoding="utf-8").strip()
