"""Certificates of `dpbandits keys tls` in TLS handshakes without a network."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from dpbandits.cli import main
from dpbandits.service.shared._transport import trusting


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
