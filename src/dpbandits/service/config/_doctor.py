"""`examine`: checks the machine, the files and the shuffler of a study, before it starts and while it runs.

The checks only read: they write nothing to the store, and their requests change nothing.
"""

from __future__ import annotations

import ctypes
import datetime
import resource
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from cryptography import x509

from dpbandits.errors import DpbanditsError, Refused, Unreachable
from dpbandits.protocol import Study, ask
from dpbandits.service.config._party_files import CoordinatorFile, ShufflerFile, read_shuffler, read_study
from dpbandits.service.config._toml_file import TomlFile
from dpbandits.service.coordinator import poll_interval
from dpbandits.service.shared import Backoff, Transport, call, most_connections
from dpbandits.service.wire import CollectionReply, KeyReply, Place, ReportSlot
from dpbandits.storage import StudyRecord, open_store

Grade = Literal["ok", "warning", "error"]

_BACKLOG = 2048  # connections that wait to be accepted, as in service/shared/_serving.py
_POLLS = 1500  # per second; fewer than one worker serves on one core (benchmarks/siege.py)
_UNSYNCHRONIZED = 5  # what adjtimex returns
_MINIMUM_FREE = 1 << 28  # bytes, for logs and for the database's own files


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    Attributes:
        check: What was checked.
        grade: `ok`, `warning`, or `error` if the study cannot run correctly with what was found.
        told: What was found. With a warning or an error, also what to do, if that is known.
    """

    check: str
    grade: Grade
    told: str


def examine(path: Path) -> list[Finding]:
    """Check everything that a study file, or a shuffler's file, refers to.

    Args:
        path: The TOML file.

    Returns:
        The findings, in the order of the checks. A check may have several. The check of a shuffler has none
        in a study without a shuffler.

    Raises:
        InvalidValue: The file itself is not accepted.
    """
    own = TomlFile(path)
    file = read_study(path) if own.has("study") else read_shuffler(path)
    checks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("clock", lambda: _clock(file)),
        ("certificate", lambda: _certificate(file, own)),
        ("secrets", lambda: _secrets(own)),
        ("store", lambda: _store(file)),
        ("port", lambda: _port(file)),
    ]
    if isinstance(file, CoordinatorFile):
        checks += [
            ("shuffler", lambda: _shuffler(file, own)),
            ("plan", lambda: _plan(file)),
        ]
    else:
        checks.append(("disk", lambda: _disk(file, 0)))
    findings = list[Finding]()
    for name, check in checks:
        try:
            findings += check()
        except (DpbanditsError, OSError, ValueError) as error:
            findings.append(Finding(check=name, grade="error", told=str(error)))
    return findings


def _found(check: str, grade: Grade, told: str) -> Finding:
    return Finding(check=check, grade=grade, told=told)


def _clock(file: CoordinatorFile | ShufflerFile) -> Iterator[Finding]:
    if _unsynchronized():
        yield _found("clock", "warning", "this machine's clock is not synchronized; start an NTP client")
    else:
        yield _found("clock", "ok", "this machine's clock is synchronized, as far as the system tells")
    if file.storage.startswith("postgresql"):
        store = open_store(file.storage, read_only=True)
        try:
            skew = (store.now() or time.time()) - time.time()
        finally:
            store.close()
        grade: Grade = "ok" if abs(skew) <= 1 else "warning"
        told = f"PostgreSQL's clock, which decides deadlines, differs from this machine's by {skew:+.2f} s"
        yield _found("clock", grade, told)


def _unsynchronized() -> bool:
    """Return whether the kernel reports that its clock is not synchronized; False if it reports nothing."""
    try:
        adjtimex = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError, TypeError):
        return False
    state: int = adjtimex(ctypes.create_string_buffer(512))  # all zero: only reads
    return state == _UNSYNCHRONIZED


def _certificate(file: CoordinatorFile | ShufflerFile, own: TomlFile) -> Iterator[Finding]:
    path, check = file.listening.certificate, "certificate"
    if path is None:
        yield _found(check, "warning", "none: without TLS, only programs on this machine can connect")
        return
    found = x509.load_pem_x509_certificate(path.read_bytes())
    days = (found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).total_seconds() / 86_400
    if days < 0:
        yield _found(check, "error", f"{path} has expired; replace it and send SIGHUP")
    elif days < 30:
        yield _found(check, "warning", f"{path} expires in {days:.0f} days; replace it and send SIGHUP")
    else:
        yield _found(check, "ok", f"{path} is valid for {days:.0f} more days")
    host = urlsplit(own.section("server").get("url", file.listening.url)).hostname or ""
    covered = _hosts(found)
    if host not in covered and "*." + host.partition(".")[2] not in covered:
        yield _found(check, "error", f"{path} is not valid for {host}, the host of [server] url")


def _hosts(certificate: x509.Certificate) -> set[str]:
    """Return the host names and addresses for which a certificate is valid."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    hosts = {str(name) for name in names.get_values_for_type(x509.DNSName)}
    return hosts | {str(address) for address in names.get_values_for_type(x509.IPAddress)}


def _secrets(own: TomlFile) -> Iterator[Finding]:
    """Check that nobody else can read the files with secrets."""
    wanted = (("keys", "reports"), ("server", "key"), ("shuffler", "token_file"))
    paths = [own.file(*names) for names in wanted if names[1] in own.section(names[0])]
    open_to_others = [path for path in paths if stat.S_IMODE(path.stat().st_mode) & 0o077]
    for path in open_to_others:
        yield _found("secrets", "error", f"others can read {path}; run chmod 600 {path}")
    if not open_to_others:
        yield _found("secrets", "ok", f"only the owner can read {len(paths)} files with secrets")


def _store(file: CoordinatorFile | ShufflerFile) -> Iterator[Finding]:
    path = _sqlite_path(file.storage)
    if path is not None and not path.exists():
        yield _found("store", "ok", f"{path} does not exist yet; the first start creates it")
        return
    store = open_store(file.storage, read_only=True)
    try:
        began = time.perf_counter()
        with store.transaction() as transaction:
            latest, releases = transaction.latest(), len(transaction.releases())
        took = time.perf_counter() - began
    finally:
        store.close()
    where = "before the first phase" if latest is None else f"phase {latest.phase}, {latest.state}"
    grade: Grade = "ok" if took < 0.5 else "warning"
    yield _found("store", grade, f"{where}, {releases} phases released; read in {1e3 * took:.0f} ms")
    if path is not None and stat.S_IMODE(path.stat().st_mode) & 0o077:
        yield _found("store", "error", f"others can access {path}; run chmod 600 {path}")


def _sqlite_path(storage: str) -> Path | None:
    prefix = "sqlite:///"
    return Path(storage[len(prefix) :]) if storage.startswith(prefix) else None


def _port(file: CoordinatorFile | ShufflerFile) -> Iterator[Finding]:
    listening = file.listening
    where = f"{listening.host} port {listening.port}"
    try:
        with socket.socket(socket.AF_INET6 if ":" in listening.host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((listening.host, listening.port))
    except OSError as error:
        if _responds(file):
            yield _found("port", "ok", f"{where}: the service runs and is ready")
        else:
            yield _found("port", "error", f"{where}: {error.strerror}, and no service there is ready")
    else:
        yield _found("port", "ok", f"{where} is free: the service does not run")


def _responds(file: CoordinatorFile | ShufflerFile) -> bool:
    """Return whether a service that is ready responds on the port of this party."""
    any_address = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}
    host = any_address.get(file.listening.host, file.listening.host)
    url = replace(file.listening, host=host).url
    import httpx

    try:  # the certificate was checked from its file; it may be for another host name
        return httpx.get(f"{url}/readyz", verify=False, timeout=10).status_code == 200
    except httpx.TransportError:
        return False


def _shuffler(file: CoordinatorFile, own: TomlFile) -> Iterator[Finding]:
    address = file.context.shuffler
    if address is None:
        return
    trusted = own.file("shuffler", "certificates") if "certificates" in own.section("shuffler") else None
    token = own.existing("shuffler", "token_file").read_text(encoding="utf-8").strip()
    with Transport(certificates=trusted, patience=Backoff(tries=2)) as transport:
        try:
            began = time.perf_counter()
            key = transport.hold(call("GET", f"{address.url}/v1/key", KeyReply))
            took = time.perf_counter() - began
        except (Unreachable, Refused) as error:
            yield _found("shuffler", "error", f"{error}; check its address, its certificate and its log")
            return
        yield _found("shuffler", "ok", f"{address.url} responds in {1e3 * took:.0f} ms")
        if (key.key, key.mode) != (address.key, address.mode):
            expected = f"key {address.key[:12]}… and mode {address.mode}"
            told = f"it has key {key.key[:12]}… and mode {key.mode}; the study file has {expected}"
            yield _found("shuffler", "error", told)
        url = f"{address.url}/v1/phases/1/attempts/1/collection"
        try:
            transport.hold(call("GET", url, CollectionReply, secret=token))
        except Refused as refusal:
            if refusal.reason not in ("no-collection", "not-found"):
                told = f"it refuses the token of [shuffler] token_file ({refusal.reason})"
                yield _found("shuffler", "error", told)
                return
        yield _found("shuffler", "ok", "it accepts the coordinator's token")


def _plan(file: CoordinatorFile) -> Iterator[Finding]:
    """Check what the study will need: clients, open files, requests per second, disk."""
    context = file.context.planned(_begun(file))
    study = context.study
    plan = ask(study.begin())  # the first phase; later phases have no more actions
    largest, needed = _cohorts(study)
    slot = ReportSlot(
        plan=plan,
        place=Place.of("0" * 64, plan, 1, "0" * 64),
        mode="" if context.shuffler is None else context.shuffler.mode,
    )
    size = slot.body_size
    told = f"asks {needed:,} clients, at most {largest:,} at a time; a report has {size:,} bytes"
    yield _found("plan", "ok", told)
    if size > file.limits.body_bytes and not context.shuffled:
        yield _found("plan", "error", f"set [limits] body_bytes to at least {size}")
    timing = context.timing
    if timing.report_seconds < 3 * timing.poll_seconds:
        told = f"report_seconds {timing.report_seconds:g} is less than 3 times poll_seconds"
        yield _found("plan", "warning", f"{told} {timing.poll_seconds:g}; clients may poll too late")
    polls = largest / poll_interval(largest, timing)
    grade: Grade = "ok" if polls <= _POLLS else "warning"
    advice = "" if grade == "ok" else f"; raise report_seconds to {4 * largest / _POLLS:.0f}, or add workers"
    yield _found("plan", grade, f"{largest:,} clients poll {polls:,.0f} times a second{advice}")
    yield _files(largest)
    yield from _disk(file, 0 if context.shuffled else 3 * size * largest)


def _begun(file: CoordinatorFile) -> StudyRecord | None:
    """Return what the store has of the study; None if there is no store yet."""
    path = _sqlite_path(file.storage)
    if path is not None and not path.exists():
        return None
    store = open_store(file.storage, read_only=True)
    try:
        with store.transaction() as transaction:
            return transaction.study()
    finally:
        store.close()


def _cohorts(study: Study) -> tuple[int, int]:
    """Return the largest cohort of a study, and the number of clients that it asks in all."""
    phases = study.schedule.reporting_phases(study.horizon)
    sizes = [study.schedule.cohort(phase) for phase in range(1, phases + 1)]
    sizes += [own.cohort for own in (study.fit_test, study.confirmation) if own is not None]
    return max(sizes, default=0), sum(sizes)


def _files(clients: int) -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    connections = most_connections(_BACKLOG, limit=hard)
    told = f"{hard:,} open files allow {connections:,} connections"
    if connections < clients:
        return _found("files", "error", f"{told}, and {clients:,} clients connect: raise LimitNOFILE")
    return _found("files", "ok", told)


def _disk(file: CoordinatorFile | ShufflerFile, needed: int) -> Iterator[Finding]:
    path = _sqlite_path(file.storage)
    if path is None:
        yield _found("disk", "ok", f"the store needs about {needed / 1e6:,.0f} MB on PostgreSQL's disk")
        return
    free, wanted = shutil.disk_usage(path.parent).free, needed + _MINIMUM_FREE
    told = f"{free / 1e6:,.0f} MB free at {path.parent}, about {wanted / 1e6:,.0f} MB needed"
    yield _found("disk", "ok" if free >= wanted else "error", told)
