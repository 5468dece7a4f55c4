"""`dpbandits keys`: make the keys, tokens, certificates and enrolment codes of a deployed study."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from dpbandits._checks import positive, whole
from dpbandits.cli._parser import add_value, number, whole_number
from dpbandits.cli._service_extra import require_service

DESCRIPTION = (
    "Make the keys, tokens, certificates and enrolment codes of a deployed study. Secrets are written to new "
    "files that only you can read. Public keys and hashes are printed."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand per kind."""
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    sealing = kinds.add_parser("sealing", help="key pair that reports are sealed to; prints the public key")
    sealing.add_argument("file", metavar="FILE.pem", type=Path)
    signing = kinds.add_parser("signing", help="key pair that signs a study's terms; prints the public key")
    signing.add_argument("file", metavar="FILE.pem", type=Path)
    public = kinds.add_parser("public", help="print the public keys that belong to a sealing key")
    public.add_argument("file", metavar="FILE.pem", type=Path)
    token = kinds.add_parser("token", help="token of a role; prints the hash for [tokens] of a study file")
    token.add_argument("file", metavar="FILE", type=Path)
    tls = kinds.add_parser("tls", help="self-signed TLS certificate")
    tls.add_argument("certificate", metavar="CERTIFICATE.pem", type=Path)
    tls.add_argument("key", metavar="KEY.pem", type=Path)
    hosts = "host name or address; repeat for several (default: those of the loopback interface)"
    tls.add_argument("--host", action="append", metavar="H", help=hosts)
    codes = kinds.add_parser("codes", help="one-time codes with which clients enrol in a study")
    codes.add_argument("study", metavar="STUDY.toml", type=Path)
    codes.add_argument("file", metavar="FILE", type=Path, help="new file for the codes, one per line")
    add_value(codes, "--count", whole_number, "N", "number of codes (default: 100)", 100)
    add_value(
        codes, "--days", number, "D", "for how many days clients can enrol with the codes (default: always)"
    )
    revoke = kinds.add_parser("revoke", help="revoke enrolment codes of clients that have not been asked")
    revoke.add_argument("study", metavar="STUDY.toml", type=Path)
    revoke.add_argument("file", metavar="FILE", type=Path, help="file with the codes, one per line")
    destroy = kinds.add_parser("destroy", help="destroy the sealing key of a study that has ended")
    destroy.add_argument("study", metavar="FILE.toml", type=Path, help="study file or shuffler's file")


def run(options: argparse.Namespace) -> int:
    """Make, print, revoke or destroy what the kind says."""
    require_service()
    makers = {
        "sealing": _key_pair,
        "signing": _key_pair,
        "public": _public,
        "token": _token,
        "tls": _tls,
        "codes": _codes,
        "revoke": _revoke,
        "destroy": _destroy,
    }
    makers[options.kind](options)
    return 0


def _key_pair(options: argparse.Namespace) -> None:
    from dpbandits.service.wire import KeyPair, SigningKey

    made = KeyPair.new() if options.kind == "sealing" else SigningKey.new()
    made.save(options.file)
    print(made.public)


def _public(options: argparse.Namespace) -> None:
    from dpbandits.service.wire import KeyPair, SigningKey

    keys = KeyPair.load(options.file)
    print(f"reports are sealed to  {keys.public}")
    print(f"statements are signed by  {SigningKey.of(keys).public}")


def _token(options: argparse.Namespace) -> None:
    from dpbandits.service.wire import hashed, new_secret, write_private

    secret = new_secret()
    write_private(options.file, secret.encode() + b"\n")
    print(hashed(secret))


def _tls(options: argparse.Namespace) -> None:
    from dpbandits.service.shared import LOOPBACK, self_signed

    self_signed(options.certificate, options.key, options.host or LOOPBACK)


def _codes(options: argparse.Namespace) -> None:
    from dpbandits.service.config import read_study
    from dpbandits.service.wire import hashed, new_secret, write_private
    from dpbandits.storage import open_store

    codes = [new_secret() for _ in range(whole(1, 10**7, count=options.count))]
    days = None if options.days is None else positive(days=options.days)
    store = open_store(read_study(options.study).storage)
    write_private(options.file, "".join(f"{code}\n" for code in codes).encode())
    now = store.now() or time.time()
    with store.transaction() as transaction:
        expires = None if days is None else now + 86_400 * days
        transaction.add_codes([hashed(code) for code in codes], expires=expires)
    store.close()
    print(f"{len(codes)} codes in {options.file}; the store keeps their hashes")


def _revoke(options: argparse.Namespace) -> None:
    from dpbandits.service.config import read_study
    from dpbandits.service.wire import hashed
    from dpbandits.storage import open_store

    codes = [line.strip() for line in options.file.read_text(encoding="utf-8").splitlines() if line.strip()]
    store = open_store(read_study(options.study).storage)
    with store.transaction() as transaction:
        revoked = transaction.revoke_codes([hashed(code) for code in codes])
    store.close()
    print(f"{revoked} of {len(codes)} codes revoked; the others are unknown, or their client has been asked")


def _destroy(options: argparse.Namespace) -> None:
    from dpbandits.service.config import ended_study

    ended = ended_study(options.study)
    ended.destroy_key()
    print(f"{ended.key} is destroyed; destroy every copy of it as well, for example in backups")
