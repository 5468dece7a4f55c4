"""`dpbandits doctor` finds each kind of trouble, and none in a healthy study."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from dpbandits.cli import main
from dpbandits.service.config import _doctor, examine, read_shuffler
from dpbandits.service.shared import RoleTokens, self_signed
from dpbandits.service.shuffler import shuffler_app
from dpbandits.service.wire import KeyPair, hashed

from ..service.live import served  # noqa: TID252
from ..service.processes import Site  # noqa: TID252


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A study whose shuffler runs, and whose coordinator has not been started."""
    site = Site(directory=tmp_path_factory.mktemp("doctor"), trust="shuffle", mode="split", cohorts=(6, 10))
    (site.directory / "coordinator.token").chmod(0o600)
    shuffler = read_shuffler(site.shuffler_file).shuffler()
    roles = RoleTokens(hashes={"coordinator": hashed(site.tokens["coordinator"])})
    pair = site.certificate, site.directory / "tls.pem"
    with served(shuffler_app(shuffler, roles), site.shuffler_port, pair=pair):
        yield site


def _told(path: Path, grade: str) -> str:
    return " ".join(f"{one.check}: {one.told}" for one in examine(path) if one.grade == grade)


def test_a_healthy_study_has_no_errors(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(site.study_file), "--json", "-"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert {one["check"] for one in found} == {
        *("clock", "certificate", "secrets", "store", "port", "shuffler", "plan", "files", "disk"),
    }
    assert {one["grade"] for one in found if one["check"] != "clock"} == {"ok"}
    told = {one["told"] for one in found if one["check"] == "plan"}
    assert any(one.startswith("asks 16 clients, at most 10 at a time") for one in told)
    assert not (site.directory / "study.sqlite").exists()  # it only reads
    assert main(["doctor", str(site.shuffler_file)]) == 0
    assert "the service runs and is ready" in capsys.readouterr().out


def test_trouble_with_the_machine_is_found(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: (8, 8))
    monkeypatch.setattr(_doctor.shutil, "disk_usage", lambda _path: type("Usage", (), {"free": 10**6})())
    monkeypatch.setattr(_doctor, "_unsynchronized", lambda: True)
    monkeypatch.setattr(_doctor, "_POLLS", 1)
    told = _told(site.study_file, "error")
    assert "10 clients connect: raise LimitNOFILE" in told
    assert "disk: 1 MB free" in told
    warned = _told(site.study_file, "warning")
    assert "clock: this machine's clock is not synchronized" in warned
    assert "raise report_seconds to 40" in warned


def test_trouble_with_the_files_is_found(site: Site) -> None:
    token, key = site.directory / "coordinator.token", site.directory / "tls.pem"
    key.chmod(0o640)
    text = token.read_text()
    token.write_text("x" * 43)
    other, own = site.directory / "other.pem", site.directory / "other-key.pem"
    self_signed(other, own, ["elsewhere.example"], days=10)
    toml = site.study_file.read_text()
    pinned = toml.replace(str(KeyPair.load(site.directory / "shuffler.pem").public), "0" * 64)
    changed = pinned.replace('certificate = "certificate.pem"', 'certificate = "other.pem"')
    changed = changed.replace('key = "tls.pem"', 'key = "other-key.pem"')
    site.study_file.write_text(changed.replace('[terms]\nfile = "terms.json"\n', ""))
    errors, warned = _told(site.study_file, "error"), _told(site.study_file, "warning")
    site.study_file.write_text(toml)
    token.write_text(text)
    assert "is not valid for 127.0.0.1" in errors
    assert "it has key" in errors
    assert "refuses the token" in errors
    assert "expires in 10 days" in warned
    assert "secrets: others can read" in _told(site.study_file, "error")
    key.chmod(0o600)


def test_an_expired_certificate_is_found(tmp_path: Path) -> None:
    lonely = Site(directory=tmp_path, trust="central", mode=None, cohorts=(6,))
    (tmp_path / "tls.pem").unlink()
    self_signed(lonely.certificate, tmp_path / "tls.pem", days=0)
    assert "has expired; replace it and send SIGHUP" in _told(lonely.study_file, "error")


def test_a_certificate_without_host_names_is_valid_for_no_host() -> None:
    key, name, now = ec.generate_private_key(ec.SECP256R1()), x509.Name([]), datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer_name=name, subject_name=name, public_key=key.public_key())
    dated = builder.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    assert _doctor._hosts(dated.sign(key, SHA256())) == set()


def test_a_shuffler_that_is_away_is_found(tmp_path: Path) -> None:
    lonely = Site(directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(6,))
    assert "Connection refused" in _told(lonely.study_file, "error")
