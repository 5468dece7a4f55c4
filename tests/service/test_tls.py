"""Certificates of `dpbandits keys tls` in TLS handshakes without a network, and a renewed one in a server."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from dpbandits.cli import main
from dpbandits.errors import InvalidValue
from dpbandits.service.shared import Listening
from dpbandits.service.shared._transport import trusting

from .processes import ENVIRONMENT, Site, free_port, stop


def _made(directory: Path, name: str) -> Path:
    certificate, key = directory / f"{name}.pem", directory / f"{name}-key.pem"
    assert main(["keys", "tls", str(certificate), str(key)]) == 0
    return certificate


def _together(certificates: list[Path]) -> Path:
    path = certificates[0].with_name("together.pem")
    path.write_bytes(b"".join(certificate.read_bytes() for certificate in certificates))
    return path


def _shake_hands(certificate: Path, trusted: Path, host: str) -> None:
    """Do a handshake between a caller that trusts a file and a server with a certificate."""
    identity = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    identity.load_cert_chain(certificate, certificate.with_name(f"{certificate.stem}-key.pem"))
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    caller = trusting(trusted).wrap_bio(back, there, server_hostname=host)
    server = identity.wrap_bio(there, back, server_side=True)
    waiting = [caller, server]
    for _ in range(10):
        for party in list(waiting):
            try:
                party.do_handshake()
                waiting.remove(party)
            except ssl.SSLWantReadError:
                pass
    assert waiting == []


def test_a_key_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_arguments: object) -> None:
        raise PermissionError(13, "Permission denied")

    certificate = _made(tmp_path, "one")
    monkeypatch.setattr(Listening, "load", load)
    with pytest.raises(InvalidValue, match="one-key.pem, both readable"):
        Listening(certificate=certificate, key=tmp_path / "one-key.pem")


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_two_parties_of_one_host_are_trusted_by_one_file(host: str, reverse: bool, tmp_path: Path) -> None:
    """Two certificates have the same name, so only their key identifiers distinguish them."""
    made = [_made(tmp_path, name) for name in ("coordinator", "shuffler")]
    trusted = _together(made[::-1] if reverse else made)
    for certificate in made:
        _shake_hands(certificate, trusted, host)


def test_a_third_certificate_of_the_same_host_is_not_trusted(tmp_path: Path) -> None:
    made = [_made(tmp_path, name) for name in ("coordinator", "shuffler", "somebody")]
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(made[2], _together(made[:2]), "localhost")
    with pytest.raises(ssl.SSLCertVerificationError):
        _shake_hands(made[0], _together(made[:2]), "another.example")


SERVER = """
import sys
from pathlib import Path
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
from dpbandits.service.shared import Listening, configure_logs, serve

async def answer(request):
    return Response()

port, certificate, key = sys.argv[1:]
configure_logs()
listening = Listening(port=int(port), certificate=Path(certificate), key=Path(key))
serve(Starlette(routes=[Route("/", answer)]), listening)
"""


def _wait(there: Callable[[], bool], seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while not there() and time.monotonic() < until:
        time.sleep(0.02)
    return there()


def test_a_rehearsal_trusts_the_shufflers_own_certificate(tmp_path: Path) -> None:
    site = Site(
        directory=tmp_path, trust="shuffle", mode="trusted", cohorts=(6,), horizon=400, report_seconds=2
    )
    other = _made(tmp_path, "other")
    study, shuffler = site.study_file.read_text(), site.shuffler_file.read_text()
    site.study_file.write_text(study.replace('certificates = "cert', 'certificates = "other.pem" # '))
    shuffler = shuffler.replace("certificate.pem", other.name).replace("tls.pem", "other-key.pem")
    site.shuffler_file.write_text(shuffler)
    rewards = tmp_path / "rewards.csv"
    rewards.write_text("\n".join([",".join(["0.5"] * site.actions.count)] * 6))
    site.certificate = other
    with site.running("shuffler", site.shuffler()):
        site.wait_ready(site.shuffler_url)
        rehearsed = subprocess.run(
            [*site.coordinator(), "--rewards", str(rewards)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=ENVIRONMENT,
        )
    assert "6 reports were accepted" in rehearsed.stdout


def test_after_sighup_new_connections_get_the_renewed_certificate(tmp_path: Path) -> None:
    """Open connections go on. A pair that does not fit is not loaded, and the server goes on, too."""
    old, new = (_made(tmp_path, name) for name in ("old", "new"))
    used, key, port = tmp_path / "used.pem", tmp_path / "used-key.pem", free_port()

    def installed(certificate: Path, of_key: Path) -> None:
        shutil.copy(certificate, used)
        shutil.copy(of_key.with_name(f"{of_key.stem}-key.pem"), key)

    def presented() -> str:
        with contextlib.suppress(OSError):
            return ssl.get_server_certificate(("127.0.0.1", port), timeout=10)
        return ""

    installed(old, old)
    log = tmp_path / "log"
    command = [sys.executable, "-c", SERVER, str(port), str(used), str(key)]
    with log.open("wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=ENVIRONMENT)
    try:
        assert _wait(lambda: presented() == old.read_text())
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=trusting(old)) as kept:
            assert kept.get("/").status_code == 200
            installed(new, new)
            assert presented() == old.read_text()  # it reads the files only when it is told
            os.kill(server.pid, signal.SIGHUP)
            assert _wait(lambda: presented() == new.read_text())
            assert kept.get("/").status_code == 200  # on the connection with the old certificate
        installed(old, new)
        os.kill(server.pid, signal.SIGHUP)
        assert _wait(lambda: "certificate-not-loaded" in log.read_text())
        assert presented() == new.read_text()
        assert server.poll() is None
    finally:
        stop(server)
    assert server.returncode == 0
    assert log.read_text().count("certificate-loaded") == 1
