"""Memories of clients in files that only their owner may read, replaced atomically."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dpbandits.errors import InvalidValue
from dpbandits.service.client._client import ClientMemory
from dpbandits.service.wire import hashed, replace_private


class MemoryFile:
    """Loads and saves a client's memory.

    Example, with `file = MemoryFile(Path("client.json"))`:
    `ClientCore(url="https://study.example", memory=file.load(), save=file.save)`.

    Args:
        path: The JSON file; the first `save` creates it.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dpbandits.service.client import ClientCore, MemoryFile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = MemoryFile(Path(folder) / "client.json")
        ...     core = ClientCore(url="https://study.example", memory=file.load(), save=file.save)
        ...     file.save(core.memory)
        ...     print(file.load() == core.memory)
        True
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
        """Write the memory durably; after a crash the file has either the old or the new memory.

        Args:
            memory: What is saved.
        """
        replace_private(self._path, msgspec.json.encode(memory))


class MemoryFolder:
    """The memories of many clients, one file each.

    A file is named by the SHA-256 of the client's enrolment code. So the order of clients does not matter,
    and no code is stored.

    Args:
        path: The folder. It is created with access for its owner only.

    Raises:
        InvalidValue: The path is not a folder, or its parent does not exist.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from dpbandits.service.client import MemoryFolder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     memories = MemoryFolder(Path(folder) / "clients")
        ...     one = memories.of("a code").load()
        ...     memories.of("a code").save(one)
        ...     print(memories.of("a code").load() == one)
        True
    """

    def __init__(self, path: Path) -> None:
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            raise InvalidValue("memory", path, "a folder, or a new one in an existing folder") from None
        self._path = path

    def of(self, code: str) -> MemoryFile:
        """Return the memory of the client with an enrolment code.

        Args:
            code: The client's enrolment code.
        """
        return MemoryFile(self._path / f"{hashed(code)}.json")
