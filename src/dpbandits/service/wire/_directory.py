"""Syncs directories: a rename survives a power cut only after its directory was written to the disk."""

from __future__ import annotations

import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """Wait until the entries of a directory, for example a renamed file, are on the disk."""
    if os.name != "posix":  # other systems cannot open a directory
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
