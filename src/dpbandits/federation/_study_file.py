"""Reading the study file of a federation (TOML): a study file with a section [federation].

    [federation]  address (host:port of the SuperLink), certificate, key, authority (the certificate that
                  signed it; by default itself), sites (a folder with the public key of each site, NAME.pub),
                  folder (for Flower's own files)
    [timing]      report_seconds, join_seconds, poll_seconds: `answer_seconds`, `join_seconds` and
                  `poll_seconds` of `Patience`

Paths are relative to the directory of the file. No setting changes how noise is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from dpbandits.errors import InvalidValue
from dpbandits.federation._driver import Patience
from dpbandits.federation._roles import federation_terms
from dpbandits.federation._signing import PublicSiteKey
from dpbandits.federation._site_file import address_in
from dpbandits.options import Options
from dpbandits.protocol import Study, encode
from dpbandits.service.config import (
    TomlFile,
    key_pair_of,
    options_of,
    require_cohorts,
    storage_of,
    study_file,
    study_of,
    terms_in,
)
from dpbandits.service.coordinator import Beginning
from dpbandits.service.wire import KeyPair, SignedTerms
from dpbandits.storage import Store, StudyRecord, open_store


@dataclass(frozen=True, kw_only=True)
class FederationFile:
    """The checked content of a study file with a section [federation].

    Attributes:
        path: The file.
        study: The study. It has the digest of its terms, once they are written.
        options: The options whose rows are the actions; None if the actions have no names.
        signed: The terms; None before `dpbandits federate terms` wrote them.
        keys: The key pair that sites seal their answers to.
        storage: The URL of the store.
        patience: How long to wait for sites.
        host: The address on which the SuperLink listens.
        port: Its port.
        certificate: The certificate of the SuperLink.
        key: Its private key.
        authority: The certificate that signed it.
        sites: The public keys of the sites, one file each.
        folder: Where Flower keeps its own files.
    """

    path: Path
    study: Study
    options: Options | None
    signed: SignedTerms | None
    keys: KeyPair
    storage: str
    patience: Patience
    host: str
    port: int
    certificate: Path
    key: Path
    authority: Path
    sites: tuple[Path, ...]
    folder: Path

    @property
    def address(self) -> str:
        """The address and the port of the SuperLink."""
        return f"{self.host}:{self.port}"

    def site_keys(self) -> dict[str, PublicSiteKey]:
        """Return the public key of each site, by the name of its file without `.pub`.

        Raises:
            InvalidValue: A file has no such key.
        """
        return {path.stem: PublicSiteKey.load(path) for path in self.sites}

    def agreed(self) -> SignedTerms:
        """Return the terms.

        Raises:
            InvalidValue: The file names none.
        """
        if self.signed is None:
            raise InvalidValue("terms", None, "terms, which `dpbandits federate terms` writes")
        return self.signed

    def store(self) -> Store:
        """Open the store. An empty one gets the terms first, so that other commands can read it too.

        Returns:
            The open store.

        Raises:
            InvalidValue: The file names no terms.
        """
        signed, store = self.agreed(), open_store(self.storage)
        with store.transaction() as transaction:
            if transaction.study() is None:
                body = encode(Beginning(signed=signed, options=self.options))
                transaction.begin_study(StudyRecord(digest=signed.digest, body=body))
        return store


def read_federation(path: Path) -> FederationFile:
    """Read and check a study file with a section [federation].

    Args:
        path: The TOML file.

    Returns:
        The content.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted, or the terms belong to another
            study; the error names the line.
    """
    file = study_file(path)
    require_cohorts(file.section("schedule").get("participants"))
    study, keys = study_of(file), key_pair_of(file)
    host, port = file.build("federation", lambda **_keys: address_in(file, "federation"), at="address")
    signed = file.build("terms", lambda **_keys: terms_in(file), at="file") if file.has("terms") else None
    if signed is not None:
        study = _with_terms(study, signed, f"{host}:{port}", keys)
    certificate = file.existing("federation", "certificate")
    own = "authority" in file.section("federation")
    return FederationFile(
        path=path.resolve(),
        study=study,
        options=options_of(file),
        signed=signed,
        keys=keys,
        storage=storage_of(file),
        patience=file.build("timing", _patience),
        host=host,
        port=port,
        certificate=certificate.resolve(),
        key=file.existing("federation", "key").resolve(),
        authority=(file.existing("federation", "authority") if own else certificate).resolve(),
        sites=_public_keys(file),
        folder=file.file("federation", "folder").resolve(),
    )


def _with_terms(study: Study, signed: SignedTerms, address: str, keys: KeyPair) -> Study:
    """Return the study with the digest of its terms; raise if this file does not produce these terms."""
    terms = signed.opened()
    if federation_terms(study, address=address, key=keys.public, run=terms.run) != terms:
        expected = "the terms of this file: run `dpbandits federate terms` after a change, and tell the sites"
        raise InvalidValue("terms", signed.digest[:12], expected)
    return replace(study, terms=signed.digest)


def _patience(
    report_seconds: float = Patience.answer_seconds,
    join_seconds: float = Patience.join_seconds,
    poll_seconds: float = Patience.poll_seconds,
) -> Patience:
    return Patience(answer_seconds=report_seconds, join_seconds=join_seconds, poll_seconds=poll_seconds)


def _public_keys(file: TomlFile) -> tuple[Path, ...]:
    folder = file.file("federation", "sites")
    if not folder.is_dir():
        raise InvalidValue("federation.sites", folder, "a folder for the public key of each site, NAME.pub")
    return tuple(sorted(path.resolve() for path in folder.glob("*.pub")))
