"""For the commands of deployed studies: check that packages are installed, and read tokens."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from dpbandits.errors import InvalidValue

PACKAGES = (
    "starlette",
    "uvicorn",
    "httpx",
    "cryptography",
    "sqlalchemy",
    "prometheus_client",
    "opendp",
    "jinja2",
)


def require_service() -> None:
    """Check that the extra `service` is installed, without importing its packages.

    Raises:
        InvalidValue: A package is missing. The message says how to install it.
    """
    for package in PACKAGES:
        if find_spec(package) is None:
            remedy = f"an installed {package}: pip install '.[service]' in a clone of dpbandits"
            raise InvalidValue(package, "no such package", remedy)


def read_secret(path: Path) -> str:
    """Return the token in a file of one line.

    Raises:
        InvalidValue: The file does not exist.
    """
    if not path.is_file():
        raise InvalidValue("token-file", path, "an existing file with a token (dpbandits keys token)")
    return path.read_text(encoding="utf-8").strip()
