"""Reading study files for the coordinator and configuration files for the shuffler (TOML). Their sections:

    [study]      actions (a file; none with [options]), horizon, bound, bounded_rewards, heterogeneity,
                 population, when_clients_run_out, design_tolerance, confidence, stop_when_decided, stop_gap,
                 objective
    [options]    a table of options with names, see _options_section.py
    [privacy]    trust, epsilon, delta, preset, noise, minimum_share, silent_share
    [schedule]   participants (the schedule is then planned at the first start), cohorts, alpha or
                 fixed_cohort; maximum_cohort, first_length, growth
    [confirmation] enabled, cohort or width, finalists, assumes: the last cohort, which compares finalists
                 with `current` of [options]; on by default if there is a `current` and `participants`
    [fit_test]   cohort or notice, plays, coordinates: a cohort that tests whether mean rewards are linear
    [timing]     report_seconds, join_seconds, poll_seconds
    [storage]    url
    [terms]      file (the study's terms, written by `dpbandits terms`)
    [keys]       reports (the file of the private key that reports are sealed to), progress (a file that
                 records how far the study has got; by default the name of the key file plus .progress)
    [server]     host, port, certificate, key, url (the public address; by default made of host and port)
    [tokens]     operator, actuator, coordinator, reader: the SHA-256 of each role's token
    [limits]     body_bytes, all_body_bytes, trusted_body_bytes, requests_per_second, burst
    [shuffler]   in a study file: url, key, mode, token_file, certificates;
                 in a shuffler file: mode, minimum_reports, terms (a digest), operator_key
    [federation] of a study that `dpbandits federate` runs: address, certificate, key, authority, sites,
                 folder

Paths are relative to the directory of the file. No setting changes how noise is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dpbandits._checks import whole
from dpbandits.actions import Actions
from dpbandits.answers import RewardRange
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import (
    Confirmation,
    FitTest,
    Schedule,
    Study,
    budgeted,
    reserved,
    reserved_fit_test,
    spent,
    usual_plays,
)
from dpbandits.rounds import StoreClock, give_order
from dpbandits.service.config._options_section import KEYS, options_of
from dpbandits.service.config._toml_file import TomlFile
from dpbandits.service.coordinator import (
    LEVEL,
    Context,
    Coordinator,
    Course,
    HttpLink,
    WatchedStore,
    Watermark,
    read_course,
    stored_results,
)
from dpbandits.service.shared import Limits, Listening, Roles, ShufflerAddress, Timing
from dpbandits.service.shuffler import Shuffler, ShufflerContext
from dpbandits.service.wire import KeyPair, Pins, ResultsReply, SignedTerms, VerifyKey, read_terms
from dpbandits.storage import open_store


def _keys(kind: Any, *without: str) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind) if field.name not in without)


_COMMON = {
    "storage": ("url",),
    "keys": ("reports", "progress"),
    "server": ("host", "port", "certificate", "key", "url"),
    "tokens": ("operator", "actuator", "coordinator", "reader"),
    "limits": _keys(Limits),
}
# Fields of `Study` that other sections describe, or that no file may set.
_ELSEWHERE = (
    "privacy",
    "schedule",
    "steps",
    "assignment",
    "terms",
    "options",
    "confirmation",
    "fit_test",
)
_STUDY = {
    "study": _keys(Study, *_ELSEWHERE),
    "options": KEYS,
    "privacy": _keys(PrivacyRequest, "sampled_share"),  # clients join first come, first served
    "schedule": ("participants", *_keys(Schedule)),
    "confirmation": ("enabled", "cohort", "width", "finalists", "assumes"),
    "fit_test": ("notice", *_keys(FitTest)),
    "timing": _keys(Timing),
    "shuffler": ("url", "key", "mode", "token_file", "certificates"),
    "terms": ("file",),
    "federation": ("address", "certificate", "key", "authority", "sites", "folder"),
    **_COMMON,
}
_SHUFFLER = {"shuffler": ("mode", "minimum_reports", "terms", "operator_key"), **_COMMON}


@dataclass(frozen=True, kw_only=True)
class _PartyFile:
    """What the files of both parties have."""

    storage: str
    listening: Listening
    roles: Roles
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class CoordinatorFile(_PartyFile):
    """The checked content of a coordinator's study file."""

    context: Context
    link: HttpLink | None

    def coordinator(self) -> Coordinator:
        """Open the store and return a coordinator that continues from it."""
        return Coordinator(self.context, open_store(self.storage), self.link)


@dataclass(frozen=True, kw_only=True)
class ShufflerFile(_PartyFile):
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
    timing, common = file.build("timing", Timing), _common(file)
    url = file.section("server").get("url", common["listening"].url)
    signed = file.build("terms", lambda **_keys: terms_in(file), at="file") if file.has("terms") else None
    watermark = _watermark(file, study.digest)
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


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """What is needed to read the results of a study from its store: no key and no token.

    Attributes:
        study: The study, without terms.
        options: Its options; None if its actions have no names.
        storage: The URL of the store.
    """

    study: Study
    options: Options | None
    storage: str

    def results(self, *, level: float = LEVEL) -> ResultsReply:
        """Read the store and return the results, also while a coordinator uses the store.

        Args:
            level: The probability with which each kind of interval covers the truth.

        Raises:
            InvalidValue: There is no store, or it belongs to another study.
            PlanMismatch: A journalled plan differs from the one that this study computes.
        """
        store = open_store(self.storage, read_only=True)
        try:
            return stored_results(self.study, self.options, store, level=level)
        finally:
            store.close()

    def course(self) -> Course:
        """Read the course of the study from its store, also while a coordinator uses the store.

        Raises:
            InvalidValue: There is no store, or it belongs to another study.
            PlanMismatch: A journalled plan differs from the one that this study computes.
        """
        store = open_store(self.storage, read_only=True)
        try:
            return read_course(self.study, self.options, store)
        finally:
            store.close()

    def order(self, order: str) -> str:
        """Give an order of the operator: write it to the store. A running coordinator obeys within a second.

        Args:
            order: `pause`, `resume` or `close`.

        Returns:
            The new standing: `running`, `paused` or `closed`.

        Raises:
            InvalidValue: The store has no study.
            Refused: The study was closed, which is final.
        """
        store = open_store(self.storage)
        try:
            with store.transaction() as transaction:
                if transaction.study() is None:
                    raise InvalidValue(
                        "storage", "an empty store", "the store of a study that has been served"
                    )
                return give_order(transaction, order, StoreClock(store).now())
        finally:
            store.close()


def study_file(path: Path) -> TomlFile:
    """Open a study file, and check the names of its sections and keys.

    Args:
        path: The TOML file.

    Raises:
        InvalidValue: The file does not exist, or has an unknown section or key; the error names the line.
    """
    file = TomlFile(path)
    file.sections(_STUDY)
    return file


def read_stored_study(path: Path) -> StoredStudy:
    """Read the parts of a study file that describe the study and its store.

    Args:
        path: The TOML file.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted; the error names the line.
    """
    file = study_file(path)
    options = options_of(file)
    study, _ = described(file, options)
    return StoredStudy(study=study, options=options, storage=storage_of(file))


def read_shuffler(path: Path) -> ShufflerFile:
    """Read and check a shuffler's configuration file.

    Args:
        path: The TOML file.

    Returns:
        The content; call `shuffler()` on it to open the store.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted; the error names the line.
    """
    file = TomlFile(path)
    file.sections(_SHUFFLER)
    keys = key_pair_of(file)
    limits = file.build("limits", Limits)
    context = file.build("shuffler", lambda **given: _shuffler_context(keys, limits=limits, **given))
    watermark = _watermark(file, f"shuffler {context.keys.public}")
    return ShufflerFile(context=context, watermark=watermark, **_common(file))


def study_of(file: TomlFile) -> Study:
    """Return the study that a file describes. If the file gives `participants`, plan its schedule.

    Args:
        file: A study file.

    Returns:
        The study, with its final schedule.

    Raises:
        InvalidValue: A value is missing or not accepted; the error names the line.
    """
    study, participants = described(file, options_of(file))
    return study if participants is None else spent(study, budgeted(study, participants))


def described(file: TomlFile, options: Options | None) -> tuple[Study, int | None]:
    """Return the study of a file and, if its schedule must still be planned, the number of participants.

    Until it is planned, the schedule has a single cohort of all participants as a placeholder.
    """
    privacy = _with_default_noise(file.build("privacy", PrivacyRequest), file)
    participants = file.section("schedule").get("participants")
    schedule = file.build("schedule", _schedule)
    actions = file.build("study", lambda **_keys: _actions(file, options), at="actions")
    given: dict[str, Any] = {"actions": actions, "privacy": privacy, "schedule": schedule}
    given["options"] = "" if options is None else options.digest
    ends = file.section("study").get("reward_range")
    if ends is not None:
        given["reward_range"] = tuple(ends) if isinstance(ends, list) else ends
    variance = file.section("study").get("reward_variance")
    if isinstance(variance, int | float) and isinstance(ends, list) and len(ends) == 2:
        # The file has it in units of the reward. A wrong range is refused below.
        given["reward_variance"] = (
            variance * (2 * file.section("study").get("bound", 1.0) / _length(ends)) ** 2
        )
    # A planned schedule starts with few plays per action, and the average of few rewards can lie outside
    # [−bound, bound]. So by default such a study does not assume that rewards are bounded, unless clients
    # clip them to a range.
    if participants is not None:
        given["bounded_rewards"] = file.section("study").get("bounded_rewards", ends is not None)
    study = file.build("study", Study, **given)
    if file.has("fit_test"):
        study = file.build("fit_test", lambda **keys: _with_fit_test(study, participants, **keys))
    confirmation = file.build(
        "confirmation", lambda **keys: _confirmation(study, options, participants, **keys), at="cohort"
    )
    study = file.build("confirmation", lambda **_keys: _with(study, participants, confirmation=confirmation))
    return study, None if participants is None else sum(study.schedule.cohorts or ())


def _with(study: Study, participants: int | None, **own: Any) -> Study:
    """Return the study with a fit test or a confirmation, whose clients are taken from the participants."""
    (added,) = own.values()
    if participants is None or added is None:
        return replace(study, **own)
    left = sum(study.schedule.cohorts or ()) - added.cohort
    schedule = replace(study.schedule, cohorts=(whole(1, participants=left),))
    return replace(study, schedule=schedule, **own)


def _length(ends: list[Any]) -> float:
    try:
        return float(ends[1] - ends[0]) or 1.0
    except TypeError:
        return 1.0


def _with_fit_test(
    study: Study, participants: int | None, *, notice: float | None = None, **keys: Any
) -> Study:
    """Return the study with the fit test of a file: a given one, or the smallest that notices a misfit."""
    if notice is None:
        return _with(study, participants, fit_test=FitTest(**keys))
    if participants is None or set(keys) - {"plays"}:
        expected = "none, if cohort or coordinates are given, or if [schedule] has no participants"
        raise InvalidValue("notice", notice, expected)
    half = RewardRange.of(study.reward_range, bound=study.bound).half
    test = reserved_fit_test(study, participants, notice / half, **keys)
    return _with(study, participants, fit_test=test)


def _confirmation(
    study: Study,
    options: Options | None,
    participants: int | None,
    *,
    enabled: bool = True,
    cohort: int | None = None,
    width: float | None = None,
    **keys: Any,
) -> Confirmation | None:
    """Return the confirmation of a study: the one of the file, or the one that is reserved by default."""
    current = None if options is None else options.current
    asked = cohort is not None or width is not None or bool(keys)
    if not enabled or current is None or options is None:
        if asked:
            raise InvalidValue("confirmation", "its keys", "enabled = true, and `current` in [options]")
        return None
    place = options.index(current)
    if cohort is not None:
        if width is not None:
            raise InvalidValue("width", width, "none, if cohort is given")
        return Confirmation(**{"plays": usual_plays(study), **keys, "current": place, "cohort": cohort})
    if participants is None:
        if asked:
            raise InvalidValue("cohort", None, "a number of clients, since [schedule] has no participants")
        return None
    wanted = None if width is None else width / RewardRange.of(study.reward_range, bound=study.bound).half
    return reserved(study, participants, current=place, width=wanted, **keys)


def _with_default_noise(privacy: PrivacyRequest, file: TomlFile) -> PrivacyRequest:
    """In mode `verified`, let the servers add the noise if the file names none.

    The party that enrols clients can invent them, and so remove the noise that clients share. Noise of the
    servers does not depend on clients.
    """
    servers = privacy.trust_model.server_noise
    mode = file.section("shuffler").get("mode", "")
    if mode != "verified" or privacy.noise is not None or privacy.pure or privacy.preset != "tight":
        return privacy
    return replace(privacy, noise=servers)


def _actions(file: TomlFile, options: Options | None) -> Actions:
    if options is None:
        return Actions.load(file.file("study", "actions"))
    if "actions" in file.section("study"):
        given = file.section("study")["actions"]
        raise InvalidValue("actions", given, "none: the rows of the table in [options] are the actions")
    return options.actions


_SCHEDULES = ("participants", "cohorts", "alpha", "fixed_cohort")


def _schedule(participants: int | None = None, **keys: Any) -> Schedule:
    given = keys if participants is None else {**keys, "participants": participants}
    named = [name for name in _SCHEDULES if name in given]
    if len(named) != 1:
        raise InvalidValue("schedule", " and ".join(named) or "none", "one of " + ", ".join(_SCHEDULES))
    if participants is not None:
        if set(keys) - {"maximum_cohort"}:
            expected = "only maximum_cohort as a further key: the rest is planned"
            raise InvalidValue("participants", participants, expected)
        keys["cohorts"] = [whole(1, 2**40, participants=participants)]
    if "cohorts" in keys:
        if not isinstance(keys["cohorts"], list):
            raise InvalidValue("cohorts", keys["cohorts"], "a list of whole numbers")
        keys["cohorts"] = tuple(keys["cohorts"])
    return Schedule(**keys)


def key_pair_of(file: TomlFile) -> KeyPair:
    """Return the key pair of a file that reports are sealed to."""
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
    own = "certificates" in file.section("shuffler")
    trusted = file.existing("shuffler", "certificates") if own else None
    return address, HttpLink(url, token, certificates=trusted)


def _shuffler_context(
    keys: KeyPair, terms: str | None = None, operator_key: str | None = None, **given: Any
) -> ShufflerContext:
    key = None if operator_key is None else VerifyKey.parse(str(operator_key))
    return ShufflerContext(keys=keys, pins=Pins(terms=terms, operator_key=key), **given)


def terms_in(file: TomlFile) -> SignedTerms:
    """Read the file of the terms that a study file names, and check that it has valid terms."""
    return read_terms(file.existing("terms", "file"))


def _web(url: str) -> str:
    if not url.startswith(("https://", "http://")):
        raise InvalidValue("url", url, "a URL that starts with https:// or http://")
    return url


def _common(file: TomlFile) -> dict[str, Any]:
    return {
        "storage": storage_of(file),
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


def storage_of(file: TomlFile) -> str:
    """Return the store's URL; a relative SQLite path is taken relative to the file's directory."""
    url = file.text("storage", "url")
    prefix = "sqlite:///"
    if url.startswith(prefix) and not url.startswith("sqlite:////"):
        return prefix + str((file.path.parent / url[len(prefix) :]).resolve())
    return url
