"""Reads and checks the file of a site, a TOML file with these sections:

    [site]       terms (the file of the study's terms), data (a CSV file, or module:function), ledger (an
                 SQLite file), folder (for Flower's own files), port (of the SuperNode, on loopback only)
    [data]       keyword arguments of the function that `data` names
    [superlink]  address (host:port), authority (the certificate that signed the SuperLink's), key (the
                 site's private key, made by ssh-keygen)
    [consent]    the fields of `Consent`: trusts, epsilon, delta, minimum_cohort …

Paths are relative to the directory of the file. No setting changes how noise is drawn.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from dpbandits._checks import whole
from dpbandits.errors import DpbanditsError, InvalidValue
from dpbandits.federation._ledger import SiteLedger
from dpbandits.federation._signing import SiteKey
from dpbandits.federation._site import Site
from dpbandits.federation._source import DataSource, TableSource
from dpbandits.privacy import NoiseSource, SecureNoise
from dpbandits.service.client import Consent
from dpbandits.service.config import TomlFile
from dpbandits.service.wire import SignedTerms, read_terms

_SITE: dict[str, tuple[str, ...]] = {
    "site": ("terms", "data", "ledger", "folder", "port"),
    "data": (),
    "superlink": ("address", "authority", "key"),
    "consent": tuple(field.name for field in fields(Consent)),
}


@dataclass(frozen=True, kw_only=True)
class SiteFile:
    """The checked content of a site's file.

    Attributes:
        path: The file.
        signed: The study's terms.
        consent: What the site accepts for its users.
        ledger: The file of the ledger.
        folder: Where Flower keeps its own files.
        port: The port of the SuperNode, on loopback.
        address: The address of the SuperLink.
        authority: The certificate that signed the SuperLink's.
        key: The site's private key.
        source: Opens the data source.
    """

    path: Path
    signed: SignedTerms
    consent: Consent
    ledger: Path
    folder: Path
    port: int
    address: str
    authority: Path
    key: Path
    source: Callable[[], DataSource]

    def site(self, noise: NoiseSource | None = None) -> Site:
        """Open the ledger and the data source.

        Args:
            noise: The source of the users' noise; secure by default. Only tests pass another one.

        Returns:
            The site.

        Raises:
            Refused: The terms are outside the consent.
            InvalidValue: The ledger belongs to other terms, or the key or the data cannot be read.
            StorageError: The ledger cannot be opened.
        """
        ledger = SiteLedger(self.ledger, self.signed.digest)
        return Site(
            source=self.source(),
            ledger=ledger,
            key=SiteKey.load(self.key),
            signed=self.signed,
            consent=self.consent,
            noise=noise or SecureNoise(),
        )


def read_site(path: Path) -> SiteFile:
    """Read and check the file of a site.

    Args:
        path: The TOML file.

    Returns:
        The content; call `site()` on it to open the ledger and the data.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted. The error names the line, if the
            file has one.
    """
    file = TomlFile(path)
    file.sections(_SITE)
    host, port = file.build("superlink", lambda **_keys: address_in(file, "superlink"), at="address")
    return SiteFile(
        path=path.resolve(),
        signed=file.build("site", lambda **_keys: read_terms(file.existing("site", "terms")), at="terms"),
        consent=file.build("consent", _consent),
        ledger=file.file("site", "ledger").resolve(),
        folder=file.file("site", "folder").resolve(),
        port=whole(1, 65535, port=file.section("site").get("port", 9094)),
        address=f"{host}:{port}",
        authority=file.existing("superlink", "authority").resolve(),
        key=file.existing("superlink", "key").resolve(),
        source=lambda: file.build("site", lambda **_keys: _source(file), at="data"),
    )


def _consent(**given: Any) -> Consent:
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return Consent(**{**given, **lists})


def _source(file: TomlFile) -> DataSource:
    name = file.text("site", "data")
    if ":" not in name:
        return TableSource(file.file("site", "data"))
    module, _, function = name.partition(":")
    sys.path.append(str(file.path.parent.resolve()))  # the site's own code may be next to its file
    try:
        made: DataSource = getattr(import_module(module), function)(**file.section("data"))
    except DpbanditsError:
        raise
    except Exception as error:  # the site's own code may raise any error
        raise InvalidValue("data", name, f"module:function that returns a DataSource ({error!r})") from None
    return made


def address_in(file: TomlFile, section: str) -> tuple[str, int]:
    """Return the host and the port in the key `address` of a section.

    Raises:
        InvalidValue: The value is not `host:port`.
    """
    text = file.text(section, "address")
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidValue("address", text, "host:port, such as 192.0.2.7:9091")
    return host, whole(1, 65535, port=int(port))
