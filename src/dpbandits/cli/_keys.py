"""`dpbandits keys`: make the keys, tokens, certificates and enrolment codes of a deployed study."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dpbandits._checks import whole
from dpbandits.cli._parser import whole_number
from dpbandits.cli._service_extra import require_service


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its kinds."""
    parser = commands.add_parser(
        "keys",
        help=summary,
        description="Make the keys, tokens, certificates and codes of a deployed study. Secrets go into new "
        "files that only you can read; public keys and hashes are printed.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    sealing = kinds.add_parser("sealing", help="key pair that reports are sealed to; prints the public key")
    sealing.add_argument("file", metavar="FILE.pem", type=Path)
    sealing.set_defaults(run=_sealing)
    signing = kinds.add_parser("signing", help="key pair that signs a study's terms; prints the public key")
    signing.add_argument("file", metavar="FILE.pem", type=Path)
    signing.set_defaults(run=_signing)
    token = kinds.add_parser("token", help="token of a role; prints the hash for [tokens]")
    token.add_argument("file", metavar="FILE", type=Path)
    token.set_defaults(run=_token)
    tls = kinds.add_parser("tls", help="self-signed TLS certificate")
    tls.add_argument("certificate", metavar="CERTIFICATE.pem", type=Path)
    tls.add_argument("key", metavar="KEY.pem", type=Path)
    tls.add_argument(
        "--host", action="append", metavar="H", help="host name; repeat for several (default: loopback)"
    )
    tls.set_defaults(run=_tls)
    codes = kinds.add_parser("codes", help="one-time codes with which clients enrol in a study")
    codes.add_argument("study", metavar="STUDY.toml", type=Path)
    codes.add_argument("file", metavar="FILE", type=Path, help="new file for the codes, one per line")
    codes.add_argument(
        "--count", type=whole_number, default=100, metavar="N", help="number of codes (default: 100)"
    )
    codes.set_defaults(run=_codes)


def _sealing(options: argparse.Namespace) -> int:
    require_service()
    from dpbandits.service.wire import KeyPair

    made = KeyPair.new()
    made.save(options.file)
    print(made.public)
    return 0


def _signing(options: argparse.Namespace) -> int:
    require_service()
    from dpbandits.service.wire import SigningKey

    made = SigningKey.new()
    made.save(options.file)
    print(made.public)
    return 0


def _token(options: argparse.Namespace) -> int:
    require_service()
    from dpbandits.service.wire import hashed, new_secret, write_private

    secret = new_secret()
    write_private(options.file, secret.encode() + b"\n")
    print(hashed(secret))
    return 0


def _tls(options: argparse.Namespace) -> int:
    require_service()
    from dpbandits.service.shared import LOOPBACK, self_signed

    self_signed(options.certificate, options.key, options.host or LOOPBACK)
    return 0


def _codes(options: argparse.Namespace) -> int:
    require_service()
    from dpbandits.service.config import read_study
    from dpbandits.service.wire import hashed, new_secret, write_private
    from dpbandits.storage import open_store

    codes = [new_secret() for _ in range(whole(1, 10**7, count=options.count))]
    store = open_store(read_study(options.study).storage)
    write_private(options.file, "".join(f"{code}\n" for code in codes).encode())
    with store.transaction() as transaction:
        transaction.add_codes([hashed(code) for code in codes])
    store.close()
    print(f"{len(codes)} codes in {options.file}; the store keeps their hashes")
    return 0
