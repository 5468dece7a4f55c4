"""Stand-ins for programs on the pages that would change this machine or need another: they check arguments.

Each returns 0 if the arguments would work in this repository: the extra of `pip install` exists, the target
of `make` does, the services of `docker compose` are those of the file, and so on. Otherwise the page is
wrong, and the program says why.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]


def _venv(words: list[str]) -> str:
    """`python3 -m venv FOLDER`: a folder with the programs of the tests."""
    binary = Path(words[0]) / "bin"
    binary.mkdir(parents=True, exist_ok=True)
    own = Path(shutil.which("dpbandits") or "").parent
    for name in ("python", "pip", "pytest", "dpbandits"):
        if not (binary / name).exists():
            shutil.copy(own / name, binary / name)
    (binary / "activate").write_text(f'PATH="{binary.absolute()}:$PATH"\n')
    return ""


def _pip(words: list[str]) -> str:
    """`pip install` of this repository: its extras and its files exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if words[:1] != ["install"]:
        return "expected install"
    for word in words[1:]:
        extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", word)
        wrong = (
            set((extras[1] or "").split(",")) - {""} - set(project["optional-dependencies"]) if extras else {}
        )
        if wrong:
            return f"no extra {', '.join(wrong)}"
        if "/" in word and not (ROOT / word).is_file():
            return f"no file {word}"
        known = ("--quiet", "--upgrade", "--require-hashes", "--requirement", "--no-deps", "-e")
        if not extras and "/" not in word and word not in known:
            return f"{word}: not known here"
    return ""


def _make(words: list[str]) -> str:
    """`make TARGET NAME=VALUE`: targets and variables are in the Makefile."""
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in words:
        name, is_value, _ = word.partition("=")
        line = rf"^{name} \?=" if is_value else rf"^{name}:"
        if not re.search(line, text, re.MULTILINE):
            return f"nothing called {word} in the Makefile"
    if not Path(".venv").exists():
        _venv([".venv"])  # most targets create it
    return ""


def _docker(words: list[str]) -> str:
    """`docker compose -f FILE up|exec|cp`: the file has the services, and dpbandits knows the command."""
    if words[:2] != ["compose", "-f"] or words[3] not in ("up", "exec", "cp"):
        return "expected compose -f FILE up, exec or cp"
    services = yaml.safe_load((ROOT / words[2]).read_text(encoding="utf-8"))["services"]
    if words[3] == "up":
        return "" if set(words[4:]) <= {"--build", "--detach"} else "not known here"
    service = words[4].partition(":")[0]
    if service not in services:
        return f"no service {service}"
    return "" if words[3] == "cp" else refused(words[6:])


def _systemctl(words: list[str]) -> str:
    """`systemctl enable --now UNIT`: the unit is in deploy/systemd."""
    units = [word for word in words[1:] if not word.startswith("-")]
    missing = [unit for unit in units if not (ROOT / "deploy" / "systemd" / f"{unit}.service").is_file()]
    return f"no unit {missing}" if missing or words[0] not in ("daemon-reload", "enable") else ""


def _sudo(words: list[str]) -> str:
    """`sudo -u postgres createuser NAME` and `createdb --owner NAME DATABASE`."""
    asked = " ".join(words)
    right = re.fullmatch(r"-u postgres (createuser \w+|createdb --owner \w+ \w+)", asked)
    return "" if right else "expected createuser or createdb"


def _pytest(words: list[str]) -> str:
    """`pytest [-n 2] PATH…`: the tests exist."""
    paths = [word for word in words if not word.startswith("-") and not word.isdigit()]
    return "".join(f"no {path}" for path in paths if not (ROOT / path).exists())


def _git(words: list[str]) -> str:
    return "" if words == ["pull"] else "expected pull"


PROGRAMS: dict[str, Callable[[list[str]], str]] = {
    "pip": _pip,
    "make": _make,
    "docker": _docker,
    "systemctl": _systemctl,
    "sudo": _sudo,
    "pytest": _pytest,
    "git": _git,
}
_MODULES = {"venv": _venv, "pip": _pip, "pytest": _pytest}


def refused(words: list[str]) -> str:
    """Return what `dpbandits` does not know of its words, or nothing; it does not run.

    Args:
        words: The words after `dpbandits`.
    """
    import contextlib
    import io

    from dpbandits import cli

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            cli._parser(words).parse_args(words)
        except SystemExit as end:
            return said.getvalue() if end.code else ""
        except argparse.ArgumentError as error:
            return str(error)
    return ""


def called(program: str, words: list[str]) -> int:
    """Check the words of a program; return its status.

    Args:
        program: The name with which it was called.
        words: The words after it.
    """
    name = Path(program).name
    if name in ("python", "python3") and words[:1] == ["-m"]:
        name, check, words = words[1], _MODULES[words[1]], words[2:]
    else:
        check = PROGRAMS[name]
    problem = check(words)
    if problem:
        print(f"{name} {' '.join(words)}: {problem}", file=sys.stderr)
    return 1 if problem else 0
