"""Writes deploy/constraints.txt and deploy/requirements.lock: the packages that a deployment needs.

constraints.txt has the version of every package. requirements.lock also has the digests of their files for
Linux with Python 3.11 on x86-64 and ARM, for `pip install --require-hashes`. With this file pip refuses
all other files.

Run this program in the root of the repository, with a Python 3.11 in which the versions to deploy are
installed and tested:

    python3.11 -m venv locked && locked/bin/pip install --upgrade '.[postgres]' packaging
    locked/bin/python deploy/lock.py > deploy/constraints.txt
    locked/bin/python deploy/lock.py --digests > deploy/requirements.lock

The list follows the requirements from `dpbandits[postgres]`, so an environment may contain other packages.
The digests are those that pip's package index states; `--digests` needs a network.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_FILE = Path(__file__).parent.parent / "pyproject.toml"
_VERSIONS = Path(__file__).parent / "constraints.txt"
_MANYLINUX = ("_2_34", "_2_28", "_2_27", "_2_26", "_2_24", "_2_17", "2014")  # ages of glibc that images have
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


def digests() -> dict[str, list[str]]:
    """Return the SHA-256 of the file of each package in constraints.txt, one per kind of machine.

    Returns:
        Digests in hexadecimal by name of the package, without repetitions.
    """
    found = dict[str, list[str]]()
    for machine in ("x86_64", "aarch64"):
        platforms = [f"--platform=manylinux{age}_{machine}" for age in _MANYLINUX]
        options = ["--dry-run", "--quiet", "--ignore-installed", "--no-deps", "--only-binary=:all:"]
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            where = ["--python-version=3.11", *platforms, f"--target={folder}", f"--report={report}"]
            command = [sys.executable, "-m", "pip", "install", *options, *where, f"--requirement={_VERSIONS}"]
            subprocess.run(command, check=True, stdout=sys.stderr)
            installs = json.loads(report.read_text(encoding="utf-8"))["install"]
        for one in installs:
            digest = one["download_info"]["archive_info"]["hashes"]["sha256"]
            of_package = found.setdefault(canonicalize_name(one["metadata"]["name"]), [])
            of_package += [digest] if digest not in of_package else []
    return found


def with_digests() -> None:
    """Print the lock file."""
    print("# Everything that dpbandits[postgres] needs, for `pip install --require-hashes --requirement`.")
    print("# Written by deploy/lock.py --digests from constraints.txt; do not edit.")
    known = digests()
    for line in _VERSIONS.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            hashes = [f"    --hash=sha256:{digest}" for digest in known[line.split("==")[0]]]
            print(" \\\n".join([line, *hashes]))


def main() -> None:
    """Print the constraints file."""
    if sys.argv[1:] == ["--digests"]:
        with_digests()
        return
    print("# Versions of everything that dpbandits[postgres] needs, for `pip install --constraint`.")
    print(f"# Written by deploy/lock.py with Python {platform.python_version()}; do not edit.")
    for name, version in locked("postgres").items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
