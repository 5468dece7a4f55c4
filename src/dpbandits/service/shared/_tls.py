"""Self-signed certificates, for tests and private networks."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dpbandits.service.wire import pem, write_private

LOOPBACK = ("localhost", "127.0.0.1", "::1")


def self_signed(certificate: Path, key: Path, hosts: Sequence[str] = LOOPBACK, *, days: int = 365) -> None:
    """Write a new private key and a self-signed certificate. Callers must be configured to trust it.

    Args:
        certificate: The PEM file to write the certificate to.
        key: The PEM file to write the private key to; it must not exist yet.
        hosts: The host names and IP addresses of the server.
        days: The number of days until the certificate expires.

    Raises:
        InvalidValue: The key file exists; it is not overwritten.
    """
    private = ec.generate_private_key(ec.SECP256R1())
    public = private.public_key()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        # A leaf certificate, not an authority: trusting it covers these hosts, but nothing that the key
        # signs.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        # These identifiers distinguish several trusted certificates for the same host.
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(private, hashes.SHA256())
    )
    write_private(key, pem(private))
    certificate.write_bytes(made.public_bytes(Encoding.PEM))


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
