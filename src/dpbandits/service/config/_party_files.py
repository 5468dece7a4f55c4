"""The files of the two parties that serve a study: the coordinator's study file, and the shuffler's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbandits.errors import InvalidValue
from dpbandits.service.config._options_section import options_of
from dpbandits.service.config._party_sections import PartyFile, common_of, key_pair_of, watermark_of
from dpbandits.service.config._sections import shuffler_file, study_file
from dpbandits.service.config._study_section import described
from dpbandits.service.config._toml_file import TomlFile
from dpbandits.service.coordinator import Context, Coordinator, HttpLink, WatchedStore, Watermark
from dpbandits.service.shared import Limits, ShufflerAddress, Timing
from dpbandits.service.shuffler import Shuffler, ShufflerContext
from dpbandits.service.wire import KeyPair, Pins, SignedTerms, VerifyKey, read_terms
from dpbandits.storage import open_store


@dataclass(frozen=True, kw_only=True)
class CoordinatorFile(PartyFile):
    """The checked content of a coordinator's study file.

    Attributes:
        context: The study with its terms, keys and settings.
        link: The connection to the shuffler; None without a shuffler.
    """

    context: Context
    link: HttpLink | None

    def coordinator(self) -> Coordinator:
        """Return a coordinator that continues from the store."""
        return Coordinator(self.context, open_store(self.storage), self.link)


@dataclass(frozen=True, kw_only=True)
class ShufflerFile(PartyFile):
    """The checked content of a shuffler's configuration file."""

    context: ShufflerContext
    watermark: Watermark

    def shuffler(self) -> Shuffler:
        """Open the store and return a shuffler that continues from it."""
        return Shuffler(self.context, WatchedStore(open_store(self.storage), self.watermark))


def read_study(path: Path) -> CoordinatorFile:
    """Read and check a coordinator's study file.

    Args:
        path: The TOML file.

    Returns:
        The content; call `coordinator()` on it to open the store.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted; the error names the line.
    """
    file = study_file(path)
    options = options_of(file)
    (address, link), keys = _shuffler(file), key_pair_of(file)
    study, participants = described(file, options)
    timing, common = file.build("timing", Timing), common_of(file)
    url = file.section("server").get("url", common["listening"].url)
    signed = file.build("terms", lambda **_keys: terms_in(file), at="file") if file.has("terms") else None
    watermark = watermark_of(file, study.digest)
    context = file.build(
        "privacy",
        lambda **_keys: Context(
            study=study,
            participants=participants,
            options=options,
            keys=keys,
            timing=timing,
            shuffler=address,
            url=_web(url),
            signed=signed,
            watermark=watermark,
            limits=common["limits"],
        ),
        at="trust",
    )
    return CoordinatorFile(context=context, link=link, **common)


def _shuffler(file: TomlFile) -> tuple[ShufflerAddress | None, HttpLink | None]:
    if not file.has("shuffler"):
        return None, None
    url = file.text("shuffler", "url")
    key, mode = file.text("shuffler", "key"), file.section("shuffler").get("mode", "trusted")
    address = file.build("shuffler", lambda **_keys: ShufflerAddress(url=_web(url), key=key, mode=mode))
    token = file.existing("shuffler", "token_file").read_text(encoding="utf-8").strip()
    own = "certificates" in file.section("shuffler")
    trusted = file.existing("shuffler", "certificates") if own else None
    return address, HttpLink(url, token, certificates=trusted)


def terms_in(file: TomlFile) -> SignedTerms:
    """Read the terms from the file that the section [terms] of a study file names.

    Args:
        file: A study file with the section [terms].

    Returns:
        The terms, with their signature if they have one.

    Raises:
        InvalidValue: There is no such file, or it does not contain valid terms.
    """
    return read_terms(file.existing("terms", "file"))


def _web(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise InvalidValue("url", url, "a URL that starts with https:// or http://")
    return url


def read_shuffler(path: Path) -> ShufflerFile:
    """Read and check a shuffler's configuration file.

    Args:
        path: The TOML file.

    Returns:
        The content; call `shuffler()` on it to open the store.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted; the error names the line.
    """
    file = shuffler_file(path)
    keys = key_pair_of(file)
    limits = file.build("limits", Limits)
    context = file.build("shuffler", lambda **given: _shuffler_context(keys, limits=limits, **given))
    watermark = watermark_of(file, f"shuffler {context.keys.public}")
    return ShufflerFile(context=context, watermark=watermark, **common_of(file))


def _shuffler_context(
    keys: KeyPair, terms: str | None = None, operator_key: str | None = None, **given: Any
) -> ShufflerContext:
    key = None if operator_key is None else VerifyKey.parse(str(operator_key))
    return ShufflerContext(keys=keys, pins=Pins(terms=terms, operator_key=key), **given)
