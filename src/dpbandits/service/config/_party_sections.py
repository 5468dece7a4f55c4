"""The sections that the files of both parties have: [storage], [server], [tokens], [limits] and [keys]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpbandits.service.config._toml_file import TomlFile
from dpbandits.service.coordinator import Watermark
from dpbandits.service.shared import Limits, Listening, RoleTokens
from dpbandits.service.wire import KeyPair


@dataclass(frozen=True, kw_only=True)
class PartyFile:
    """What the files of both parties have.

    Attributes:
        storage: The URL of the store.
        listening: Where the party listens.
        roles: The hashes of the tokens of each role.
        limits: The limits of requests.
    """

    storage: str
    listening: Listening
    roles: RoleTokens
    limits: Limits


def common_of(file: TomlFile) -> dict[str, Any]:
    """Return the fields of a `PartyFile`."""
    return {
        "storage": storage_of(file),
        "listening": file.build("server", lambda **keys: Listening(**_with_paths(file, keys))),
        "roles": file.build("tokens", lambda **hashes: RoleTokens(hashes=hashes)),
        "limits": file.build("limits", Limits),
    }


def _with_paths(file: TomlFile, keys: dict[str, Any]) -> dict[str, Any]:
    keys.pop("url", None)
    for name in ("certificate", "key"):
        if name in keys:
            keys[name] = file.file("server", name)
    return keys


def storage_of(file: TomlFile) -> str:
    """Return the store's URL; a relative SQLite path is taken relative to the file's directory.

    Args:
        file: The party's file.
    """
    url = file.text("storage", "url")
    prefix = "sqlite:///"
    if url.startswith(prefix) and not url.startswith("sqlite:////"):
        return prefix + str((file.path.parent / url[len(prefix) :]).resolve())
    return url


def key_pair_of(file: TomlFile) -> KeyPair:
    """Return the key pair of a file that reports are sealed to.

    Args:
        file: The party's file.
    """
    return file.build("keys", lambda **_keys: KeyPair.load(file.existing("keys", "reports")), at="reports")


def watermark_of(file: TomlFile, owner: str) -> Watermark:
    """Return the file that records how far a party has got, so that an older store is noticed."""
    if "progress" in file.section("keys"):
        return Watermark(file.file("keys", "progress"), owner)
    key = file.file("keys", "reports")
    return Watermark(key.with_name(f"{key.name}.progress"), owner)
