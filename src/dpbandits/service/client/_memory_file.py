"""A client's memory in a file that only its owner may read, replaced as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from dpbandits.errors import InvalidValue
from dpbandits.service.client._client import ClientMemory


class MemoryFile:
    """Load and save."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> ClientMemory:
        """What was kept, or a new memory."""
        if not self._path.exists():
            return ClientMemory.new()
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=ClientMemory)
        except msgspec.DecodeError:
            raise InvalidValue("memory", self._path, "a client's memory of this version") from None

    def save(self, memory: ClientMemory) -> None:
        """Durably: whoever acts on it after this finds it after a crash."""
        beside = self._path.with_name(self._path.name + ".new")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(memory))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
