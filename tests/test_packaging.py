"""The wheel and the source distribution build and have every file, and the installed wheel runs.

Dependencies come from the environment that runs the tests; dpbandits itself comes from the wheel.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

import dpbandits

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dpbandits"
NEEDED = ("pyproject.toml", "README.md", "LICENSE")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built from a copy of the tree."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    for name in NEEDED:
        shutil.copy(ROOT / name, copy)
    shutil.copytree(SOURCE, copy / "src" / "dpbandits", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel; its other packages are those of the tests."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", "--disable-pip-version-check", str(wheel)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    # A .pth file in a folder that a .pth file names is not read, so an editable dpbandits there is not found.
    folders = [folder for folder in sys.path if folder.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(folders) + "\n")
    return environment


def _run(installed: Path, tmp_path: Path, *words: str) -> str:
    """Run a program of the environment in an empty folder, with an empty home."""
    home = tmp_path / "home"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
    done = subprocess.run(
        [str(installed / "bin" / words[0]), *words[1:]],
        cwd=home,
        env={**kept, "HOME": str(home), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _files() -> set[str]:
    """Every file of the package, relative to src."""
    found = (path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(SOURCE.parent).as_posix() for path in found}


def test_the_wheel_has_every_file_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == _files()
    assert "dpbandits/py.typed" in names
    assert "dpbandits/service/client/__init__.pyi" in names
    assert any(name.startswith("dpbandits/world/mslr_sample/") for name in names)


def test_the_source_distribution_has_every_file(built: Path) -> None:
    (source,) = built.glob("*.tar.gz")
    top = f"dpbandits-{dpbandits.__version__}"
    with tarfile.open(source) as archive:
        names = set(archive.getnames())
    assert {f"{top}/src/{name}" for name in _files()} | {f"{top}/{name}" for name in NEEDED} <= names


def test_the_installed_command_knows_its_version(installed: Path, tmp_path: Path) -> None:
    assert _run(installed, tmp_path, "dpbandits", "--version") == f"dpbandits {dpbandits.__version__}\n"


def test_the_installed_library_is_the_wheels_and_has_its_data(installed: Path, tmp_path: Path) -> None:
    code = (
        "import dpbandits; from dpbandits.world import load; from importlib.metadata import version; "
        "print(dpbandits.__file__, version('dpbandits'), len(load('mslr-sample', 5).catalogue) > 100)"
    )
    where, version, complete = _run(installed, tmp_path, "python", "-c", code).split()
    assert Path(where).is_relative_to(installed)
    assert (version, complete) == (dpbandits.__version__, "True")


def test_the_installed_example_runs_a_whole_study(installed: Path, tmp_path: Path) -> None:
    shown = _run(installed, tmp_path, "dpbandits", "serve", "--example")
    assert "actions may still be best" in shown
    assert "(5, " in shown
