"""`EndedStudy`: destroys the sealing key of a study that has ended.

Sealed reports may survive in places that no service can reach: in the log of PostgreSQL, in a backup, or in a
snapshot of a disk. Without the key, nobody can open these copies.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from dpbandits.errors import InvalidValue
from dpbandits.service.config._party_sections import storage_of
from dpbandits.service.config._stored_study import read_stored_study
from dpbandits.service.config._toml_file import TomlFile
from dpbandits.storage import open_store


@dataclass(frozen=True, kw_only=True)
class EndedStudy:
    """A party of a study that no longer needs its sealing key.

    Attributes:
        key: The file of the sealing key.
    """

    key: Path

    def destroy_key(self) -> None:
        """Overwrite the key and delete its file. The disk may still have old copies of its blocks."""
        with self.key.open("r+b", buffering=0) as file:
            file.write(os.urandom(self.key.stat().st_size))
            os.fsync(file.fileno())
        self.key.unlink()
        directory = os.open(self.key.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def ended_study(path: Path) -> EndedStudy:
    """Return the party of a study file, or of a shuffler's file, if it no longer needs its sealing key.

    Args:
        path: The TOML file.

    Returns:
        The party, whose key may be destroyed.

    Raises:
        InvalidValue: The study has not ended. A shuffler does not know whether it has; for a shuffler's file,
            the error means that a collection is open.
    """
    file = TomlFile(path)
    ended = EndedStudy(key=file.existing("keys", "reports"))
    if file.has("study"):
        if not read_stored_study(path).results().ended:
            raise InvalidValue("study", "a running study", "a study that has ended: the key is still needed")
        return ended
    store = open_store(storage_of(file), read_only=True)
    try:
        with store.transaction() as transaction:
            latest = transaction.latest()
    finally:
        store.close()
    if latest is not None and not latest.over:
        raise InvalidValue("shuffler", "an open collection", "no open collection: the key is still needed")
    return ended
