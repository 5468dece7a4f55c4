"""Writes deploy/constraints.txt: the version of every package that a deployment needs.

Run it in the root of the repository, with a Python 3.11 in which the versions to deploy are installed and
tested:

    python3.11 -m venv locked && locked/bin/pip install --upgrade '.[postgres]' packaging
    locked/bin/python deploy/lock.py > deploy/constraints.txt

The list follows the requirements from `dpbandits[postgres]`, so an environment may contain other packages.
"""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_FILE = Path(__file__).parent.parent / "pyproject.toml"
PROJECT = tomllib.loads(_FILE.read_text(encoding="utf-8"))["project"]


def needed(extras: Iterable[str]) -> list[Requirement]:
    """Return what dpbandits itself requires with these extras."""
    texts = [*PROJECT["dependencies"]]
    for extra in extras:
        texts += PROJECT["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


def required(name: str, extras: Iterable[str] = ()) -> list[Requirement]:
    """Return what an installed package requires on this system with these extras."""
    found = map(Requirement, distribution(name).requires or ())
    chosen = (*extras, "")
    return [
        one
        for one in found
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in chosen)
    ]


def locked(extra: str) -> dict[str, str]:
    """Return the installed version of each package that dpbandits requires with an extra.

    Args:
        extra: An extra of pyproject.toml, for example `postgres`.

    Returns:
        Names and versions, sorted by name.
    """
    versions, seen, waiting = dict[str, str](), set[tuple[str, frozenset[str]]](), needed([extra])
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if name == PROJECT["name"]:
            waiting += needed(extras)
            continue
        versions[name] = distribution(name).version
        waiting += required(name, extras)
    return dict(sorted(versions.items()))


def main() -> None:
    """Print the constraints file."""
    print("# Versions of everything that dpbandits[postgres] needs, for `pip install --constraint`.")
    print(f"# Written by deploy/lock.py with Python {platform.python_version()}; do not edit.")
    for name, version in locked("postgres").items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
