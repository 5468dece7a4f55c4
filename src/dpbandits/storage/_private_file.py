"""Permissions of an SQLite store: new files are for their owner only, whatever the umask is."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from dpbandits.errors import StorageError

log = logging.getLogger("dpbandits.storage")

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keep_private(path: Path) -> None:
    """Create a database file with mode 0600, or warn if others may access an existing one.

    SQLite gives the write-ahead log and the shared memory file the mode of the database, so they are created
    with 0600 too. The mode of existing files is not changed: a group may have been given access on purpose.

    Args:
        path: The file of the database.

    Raises:
        StorageError: The file cannot be created.
    """
    try:
        created = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        _warn(path)
        return
    except OSError as error:
        raise StorageError(f"storage: cannot open the database ({path}: {error.strerror})") from None
    try:
        path.chmod(0o600)  # a umask such as 0777 would also take away the owner's access
    finally:
        os.close(created)


def _warn(path: Path) -> None:
    files = [Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm")]
    if os.name != "posix":  # elsewhere the mode does not tell who has access
        return
    open_to_others = [file for file in files if file.exists() and file.stat().st_mode & _OTHERS]
    if open_to_others:
        remedy = f"chmod 600 {' '.join(str(file) for file in open_to_others)}"
        told = f"other users of this machine may access the store; remedy: {remedy}"
        log.warning("store-not-private", extra={"kind": "permissions", "told": told})
