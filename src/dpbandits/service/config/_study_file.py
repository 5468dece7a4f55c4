"""Study files for the coordinator, configuration files for the shuffler (TOML).

    [study]      actions (a file), horizon, bound, bounded_rewards, heterogeneity, population,
                 when_clients_run_out, design_tolerance, stop_when_decided
    [privacy]    trust, epsilon, delta, preset, noise, minimum_share, silent_share
    [schedule]   participants (planned at the first start), or cohorts, alpha or fixed_cohort; maximum_cohort,
                 first_length, growth
    [timing]     report_seconds, join_seconds, poll_seconds
    [storage]    url
    [terms]      file (the study's terms, written by `dpbandits terms`)
    [keys]       reports (the private key that reports are sealed to), progress (a file that says how far the
                 study is; without it, the key's file with .progress added)
    [server]     host, port, certificate, key, url (the public address; by default that of host and port)
    [tokens]     the SHA-256 of each role's token
    [limits]     body_bytes, trusted_body_bytes, requests_per_second, burst
    [shuffler]   coordinator: url, key, mode, token_file, certificates;
                 shuffler: mode, minimum_reports, terms (a digest), operator_key

Paths are relative to the file. Noise is not configured anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import msgspec

from dpbandits._checks import whole
from dpbandits.actions import Actions
from dpbandits.errors import InvalidValue, Refused
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Study, budgeted, spent
from dpbandits.service.config._toml_file import TomlFile
from dpbandits.service.coordinator import Context, Coordinator, HttpLink, WatchedStore, Watermark
from dpbandits.service.shared import Limits, Listening, Roles, ShufflerAddress, Timing
from dpbandits.service.shuffler import Shuffler, ShufflerContext
from dpbandits.service.wire import KeyPair, Pins, SignedTerms, VerifyKey
from dpbandits.storage import open_store


def _keys(kind: Any, *without: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in without)


_COMMON = {
    "storage": ("url",),
    "keys": ("reports", "progress"),
    "server": ("host", "port", "certificate", "key", "url"),
    "tokens": ("operator", "actuator", "coordinator"),
    "limits": _keys(Limits),
}
_STUDY = {
    "study": _keys(Study, "privacy", "schedule", "steps", "assignment", "terms"),
    "privacy": _keys(PrivacyRequest),
    "schedule": ("participants", *_keys(Schedule)),
    "timing": _keys(Timing),
    "shuffler": ("url", "key", "mode", "token_file", "certificates"),
    "terms": ("file",),
    **_COMMON,
}
_SHUFFLER = {"shuffler": ("mode", "minimum_reports", "terms", "operator_key"), **_COMMON}


@dataclass(frozen=True, kw_only=True)
class CoordinatorFile:
    """A study file that was read and checked."""

    context: Context
    storage: str
    listening: Listening
    roles: Roles
    limits: Limits
    link: HttpLink | None

    def coordinator(self) -> Coordinator:
        """Open the store and go on where it left off."""
        return Coordinator(self.context, open_store(self.storage), self.link)


@dataclass(frozen=True, kw_only=True)
class ShufflerFile:
    """A shuffler's configuration that was read and checked."""

    context: ShufflerContext
    watermark: Watermark
    storage: str
    listening: Listening
    roles: Roles
    limits: Limits

    def shuffler(self) -> Shuffler:
        """Open the store and go on where it left off."""
        return Shuffler(self.context, WatchedStore(open_store(self.storage), self.watermark))


def read_study(path: Path) -> CoordinatorFile:
    """A coordinator's file."""
    file = TomlFile(path)
    file.sections(_STUDY)
    (address, link), (study, participants), keys = _shuffler(file), described(file), _key_pair(file)
    timing, common = file.build("timing", Timing), _common(file)
    url = file.section("server").get("url", common["listening"].url)
    signed = file.build("terms", lambda **_keys: _terms(file), at="file") if file.has("terms") else None
    watermark = _watermark(file, study.digest)
    context = file.build(
        "privacy",
        lambda **_keys: Context(
            study=study,
            participants=participants,
            keys=keys,
            timing=timing,
            shuffler=address,
            url=_web(url),
            signed=signed,
            watermark=watermark,
        ),
        at="trust",
    )
    return CoordinatorFile(context=context, link=link, **common)


def read_shuffler(path: Path) -> ShufflerFile:
    """A shuffler's file."""
    file = TomlFile(path)
    file.sections(_SHUFFLER)
    keys = _key_pair(file)
    context = file.build("shuffler", lambda **given: _shuffler_context(keys, **given))
    watermark = _watermark(file, f"shuffler {context.keys.public}")
    return ShufflerFile(context=context, watermark=watermark, **_common(file))


def study_of(file: TomlFile) -> Study:
    """The study that a file describes, planned if the file leaves that to us."""
    study, participants = described(file)
    return study if participants is None else spent(study, budgeted(study, participants))


def described(file: TomlFile) -> tuple[Study, int | None]:
    """The study of a file and, if its schedule is to be planned, for how many participants.

    A schedule that is to be planned is one cohort of all participants until it is.
    """
    privacy = file.build("privacy", PrivacyRequest)
    participants = file.section("schedule").get("participants")
    schedule = file.build("schedule", _schedule)
    actions = file.build("study", lambda **_keys: Actions.load(file.file("study", "actions")), at="actions")
    given: dict[str, Any] = {"actions": actions, "privacy": privacy, "schedule": schedule}
    if participants is not None:  # planned schedules begin with few plays, where rewards scatter
        given["bounded_rewards"] = file.section("study").get("bounded_rewards", False)
    return file.build("study", Study, **given), participants


_SCHEDULES = ("participants", "cohorts", "alpha", "fixed_cohort")


def _schedule(participants: int | None = None, **keys: Any) -> Schedule:
    given = keys if participants is None else {**keys, "participants": participants}
    named = [name for name in _SCHEDULES if name in given]
    if len(named) != 1:
        raise InvalidValue("schedule", " and ".join(named) or "none", "one of " + ", ".join(_SCHEDULES))
    if participants is not None:
        if set(keys) - {"maximum_cohort"}:
            raise InvalidValue(
                "participants", participants, "no other key but maximum_cohort: all else is planned"
            )
        keys["cohorts"] = [whole(1, 2**40, participants=participants)]
    if "cohorts" in keys:
        if not isinstance(keys["cohorts"], list):
            raise InvalidValue("cohorts", keys["cohorts"], "a list of whole numbers")
        keys["cohorts"] = tuple(keys["cohorts"])
    return Schedule(**keys)


def _key_pair(file: TomlFile) -> KeyPair:
    return file.build("keys", lambda **_keys: KeyPair.load(file.existing("keys", "reports")), at="reports")


def _watermark(file: TomlFile, owner: str) -> Watermark:
    if "progress" in file.section("keys"):
        return Watermark(file.file("keys", "progress"), owner)
    key = file.file("keys", "reports")
    return Watermark(key.with_name(f"{key.name}.progress"), owner)


def _shuffler(file: TomlFile) -> tuple[ShufflerAddress | None, HttpLink | None]:
    if not file.has("shuffler"):
        return None, None
    url = file.text("shuffler", "url")
    key, mode = file.text("shuffler", "key"), file.section("shuffler").get("mode", "trusted")
    address = file.build("shuffler", lambda **_keys: ShufflerAddress(url=_web(url), key=key, mode=mode))
    token = file.existing("shuffler", "token_file").read_text(encoding="utf-8").strip()
    trusted = (
        file.existing("shuffler", "certificates") if "certificates" in file.section("shuffler") else None
    )
    return address, HttpLink(url, token, certificates=trusted)


def _shuffler_context(
    keys: KeyPair, terms: str | None = None, operator_key: str | None = None, **given: Any
) -> ShufflerContext:
    key = None if operator_key is None else VerifyKey.parse(str(operator_key))
    return ShufflerContext(keys=keys, pins=Pins(terms=terms, operator_key=key), **given)


def _terms(file: TomlFile) -> SignedTerms:
    """The terms of a file, which must be readable terms."""
    path = file.existing("terms", "file")
    try:
        signed = msgspec.json.decode(path.read_bytes(), type=SignedTerms)
        signed.opened()
    except (msgspec.DecodeError, Refused) as error:
        raise InvalidValue("file", path, f"a file that `dpbandits terms` has written ({error})") from None
    return signed


def _web(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise InvalidValue("url", url, "https://…")
    return url


def _common(file: TomlFile) -> dict[str, Any]:
    return {
        "storage": _storage(file),
        "listening": file.build("server", lambda **keys: Listening(**_with_paths(file, keys))),
        "roles": file.build("tokens", lambda **hashes: Roles(hashes=hashes)),
        "limits": file.build("limits", Limits),
    }


def _with_paths(file: TomlFile, keys: dict[str, Any]) -> dict[str, Any]:
    keys.pop("url", None)
    for name in ("certificate", "key"):
        if name in keys:
            keys[name] = file.file("server", name)
    return keys


def _storage(file: TomlFile) -> str:
    """A relative SQLite path is relative to the file too."""
    url = file.text("storage", "url")
    prefix = "sqlite:///"
    if url.startswith(prefix) and not url.startswith("sqlite:////"):
        return prefix + str((file.path.parent / url[len(prefix) :]).resolve())
    return url
