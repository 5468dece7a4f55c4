"""Write a package with an entry point into a directory, as `pip install --target` leaves it."""

from __future__ import annotations

from pathlib import Path


def install(directory: Path, *, package: str, module: str, source: str, entry: str) -> Path:
    """One module and the metadata that names it in the group `dpbandits.mechanisms`."""
    information = directory / f"{package.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    (directory / f"{module}.py").write_text(source, encoding="utf-8")
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[dpbandits.mechanisms]\n{entry}\n")
    return directory
