"""A client's memory in a file that only its owner may read, replaced atomically."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dpbandits.errors import InvalidValue
from dpbandits.service.client._client import ClientMemory
from dpbandits.service.wire import replace_private


class MemoryFile:
    """Loads and saves a client's memory.

    Example, with `file = MemoryFile(Path("client.json"))`:
    `ClientCore(url="https://study.example", memory=file.load(), save=file.save)`.

    Args:
        path: The JSON file; the first `save` creates it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> ClientMemory:
        """Return the saved memory, or a new one if the file does not exist.

        Raises:
            InvalidValue: The file is not a client memory of this version.
        """
        if not self._path.exists():
            return ClientMemory.new()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ClientMemory)
        except msgspec.DecodeError:
            raise InvalidValue("memory", self._path, "a client memory file of this version") from None

    def save(self, memory: ClientMemory) -> None:
        """Write the memory durably; after a crash the file has either the old or the new memory."""
        replace_private(self._path, msgspec.json.encode(memory))
