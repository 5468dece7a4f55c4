"""A dishonest shuffler cannot cause a forbidden release, in split mode or in trusted mode.

Each test is an attack. Most of them worked on an earlier version. The client's own code seals the shares. The
attack is in the link to the shuffler, or in an HTTP server in its place.
"""

from __future__ import annotations

import base64
import datetime
import itertools
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dpbandits.errors import ProtocolError, Refused, StorageError
from dpbandits.protocol import Plan, Release, decode
from dpbandits.service.coordinator import HttpLink, Watermark
from dpbandits.service.coordinator._watermark import Position
from dpbandits.service.shared import self_signed
from dpbandits.service.shared._transport import trusting
from dpbandits.service.wire import (
    CollectionReply,
    bound_share,
    hashed,
    new_secret,
    unbound_share,
)

from .helpers import Deployment, Member, NearLink, small_study
from .live import served


class LyingLink(NearLink):
    """A link to an honest shuffler that alters its replies; `lie` names the attack."""

    lie = ""
    victim: tuple[str, bytes] = ("", b"")

    def shares(self, phase: int, attempt: int) -> Iterator[tuple[str, bytes]]:
        honest = list(super().shares(phase, attempt))
        if self.lie == "one victim 300 times":
            return iter([honest[0]] * 300)
        if self.lie == "out of order":
            return iter(honest[::-1])
        if self.lie == "invented members":
            return iter(sorted([*honest, ("f" * 64, honest[0][1])]))
        if self.lie == "the victim under every name":
            return iter([(name, honest[0][1]) for name, _ in honest])
        if self.lie == "without end":
            return ((f"{number:064x}", honest[0][1]) for number in itertools.count())
        return iter(honest)

    def close(self, phase: int, attempt: int) -> CollectionReply:
        return self._told(super().close(phase, attempt))

    def sums(self, phase: int, attempt: int, without: list[str]) -> CollectionReply:
        return self._told(super().sums(phase, attempt, without))

    def _told(self, reply: CollectionReply) -> CollectionReply:
        told = reply.sums
        sums = told.sums if told is not None else ()

        def other(**fields: Any) -> dict[str, Any]:
            return {"sums": told and replace(told, **fields)}

        changes: dict[str, dict[str, Any]] = {
            "another set": {"checksum": "0" * 64},
            "more reports than members": {"reports": 1000},
            "no sums": {"sums": None},
            "sums of another plan": other(plan="0" * 64),
            "sums of fewer reports": other(reports=told.reports - 1 if told else 0),
            "fewer sums": other(sums=sums[:-1]),
            "sums that are no residues": other(sums=(2**62,) * len(sums)),
            "moved sums": other(sums=tuple(total ^ 1 for total in sums)),
            "another phase": {"phase": reply.phase + 1},
            "another study": {"study": "0" * 64},
            "an unknown state": {"state": "released"},
        }
        if reply.state != "summed" and self.lie == "another set":
            return reply
        return msgspec.structs.replace(reply, **changes.get(self.lie, {}))


def collecting(mode: str, **changes: Any) -> tuple[Deployment, list[Member], LyingLink]:
    """Return a study at the deadline of its first phase, after all clients have reported."""
    deployed = Deployment(study=small_study("shuffle", **changes), mode=mode)
    assert deployed.link is not None
    lying = LyingLink(deployed.link.shuffler)
    deployed.coordinator.writer.close()
    deployed.link = lying
    deployed.start()
    members = deployed.collect()
    deployed.clock.time += 61
    return deployed, members, lying


def test_sums_that_change_before_the_release_is_committed_do_not_stop_a_study(tmp_path: Path) -> None:
    refused = list[str]()

    def full_disk(step: str) -> None:
        if step == "release-before-commit" and not refused:
            refused.append(step)
            raise StorageError("the disk is full")

    deployed, _, lying = collecting("trusted")
    deployed.coordinator.writer.close()
    deployed.hook = full_disk
    deployed.watermark = Watermark(tmp_path / "progress", "study")
    deployed.watermark.seen(Position(phase=1, attempt=1, state="collecting"))
    deployed.start()
    lying.lie = "moved sums"
    with pytest.raises(StorageError, match="full"):
        deployed.advance()
    lying.lie = ""
    deployed.advance()
    (release,) = releases(deployed)
    assert release.reports == 6
    assert deployed.run(deployed.coordinator.operator.status).phase == 2


def releases(deployed: Deployment) -> list[Release]:
    with deployed.store.transaction() as transaction:
        return [decode(record.body, Release) for record in transaction.releases()]


SPLIT_LIES = (
    "one victim 300 times", "out of order", "invented members", "without end",
)  # fmt: skip
ANY_LIES = (
    "more reports than members", "no sums", "sums of another plan", "sums of fewer reports", "fewer sums",
    "sums that are no residues", "another phase", "another study", "an unknown state",
)  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "lie"),
    [*(("split", lie) for lie in (*SPLIT_LIES, *ANY_LIES)), *(("trusted", lie) for lie in ANY_LIES)],
)
def test_a_lie_releases_nothing_and_the_truth_still_can(mode: str, lie: str) -> None:
    deployed, _, link = collecting(mode)
    link.lie = lie
    with pytest.raises(ProtocolError, match="the shuffler"):
        deployed.advance()
    assert releases(deployed) == []
    assert deployed.run(deployed.coordinator.operator.status).state == "collecting"
    link.lie = ""
    deployed.advance()
    assert len(releases(deployed)) == 1
    deployed.close()


def test_sums_over_another_set_are_not_released_and_fresh_clients_are_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    deployed, _, link = collecting("split")
    link.lie = "another set"
    deployed.advance()
    assert "sets-differ" in caplog.messages
    assert releases(deployed) == []
    status = deployed.run(deployed.coordinator.operator.status)
    assert (status.state, status.attempt, status.failed_attempts) == ("gathering", 2, 1)
    deployed.close()


def test_one_clients_share_counts_under_its_own_name_only() -> None:
    """The shuffler sends the victim's share under every pseudonym: it opens only under one of them."""
    deployed, _, link = collecting("split")
    link.lie = "the victim under every name"
    deployed.advance()
    assert releases(deployed) == []  # one report is fewer than the minimum, so the attempt failed
    assert deployed.run(deployed.coordinator.operator.status).failed_attempts == 1
    deployed.close()


def test_a_shuffler_cannot_speak_for_other_members() -> None:
    """The shuffler forges shares of zero for all but its victim, to remove the others' noise."""
    deployed, members, link = collecting("split", share=0.5)
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    victim = min(member.pseudonym for member in members)

    def forged(phase: int, attempt: int) -> Iterator[tuple[str, bytes]]:
        for name, sealed in NearLink.shares(link, phase, attempt):
            place = deployed.context.place(plan, attempt, name)
            nothing = bytes(8 * plan.numbers)
            for key in (
                hashed(new_secret()),
                "0" * 64,
                name,
            ):  # the shuffler knows the pseudonym, but no token
                if name != victim:
                    bound = bound_share(nothing, place, key)
                    sealed = deployed.keys.public.seal(bound, place, "share-coordinator")
            yield name, sealed

    link.shares = forged  # type: ignore[method-assign]
    deployed.advance()
    assert releases(deployed) == []
    assert deployed.run(deployed.coordinator.operator.status).failed_attempts == 1
    deployed.close()


def test_a_share_is_bound_to_client_place_and_content() -> None:
    deployed, members, _ = collecting("split")
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    place = deployed.context.place(plan, 1, members[0].pseudonym)
    key, share = hashed(members[0].token), b"x" * 24
    bound = bound_share(share, place, key)
    assert unbound_share(bound, place, key) == share
    other = deployed.context.place(plan, 2, members[0].pseudonym)
    for data, where, credential in (
        (bound, other, key),
        (bound, place, hashed(members[1].token)),
        (b"y" + bound[1:], place, key),
        (bound[:-1], place, key),
        (b"", place, key),
    ):
        with pytest.raises(Refused):
            unbound_share(data, where, credential)
    deployed.close()


def test_a_coordinator_that_changes_plan_or_terms_is_refused_by_the_shuffler() -> None:
    deployed, _, link = collecting("split")
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    assert deployed.context.signed is not None
    from dpbandits.protocol import encode
    from dpbandits.service.wire import CollectionRequest

    good = CollectionRequest(
        study=deployed.context.name,
        terms=deployed.context.signed.terms,
        signature="",
        plan=encode(plan).decode(),
        members=["1" * 64],
    )
    link.shuffler.checked(1, good)
    other = good.terms.replace('"run":"', '"run":"0')[:-1] + "}"
    bare = re.sub(rb'"scale":[\d.]+', b'"scale":0.5', encode(plan))
    assert bare != encode(plan)
    for change in (
        {"study": "0" * 64},
        {"terms": other},
        {"terms": good.terms.replace('"mode":"split"', '"mode":"trusted"')},
        {"plan": "{}"},
        {"plan": bare.decode()},
        {"plan": good.plan.replace(deployed.context.name, "0" * 64)},
        {"plan": " " + good.plan},
        {"plan": good.plan[:-1] + ',"more":1}'},
        {"members": []},
        {"members": ["1" * 64] * 2},
        {"members": [f"{number:064x}" for number in range(7)]},
    ):
        with pytest.raises(Refused):
            link.shuffler.checked(1, msgspec.structs.replace(good, **change))
    with pytest.raises(Refused):
        link.shuffler.checked(2, good)
    deployed.close()


def _pages(lie: str) -> Starlette:
    """An HTTP shuffler with pages of shares that never end, are too long, or are not base64."""
    count = itertools.count(1)

    async def shares(_request: Request) -> Response:
        size = 2000 if lie == "too long" else 3
        sealed = "no base64!" if lie == "no base64" else base64.b64encode(b"x" * 80).decode()
        page = [(f"{next(count):064x}", sealed) for _ in range(size)]
        return Response(msgspec.json.encode({"study": "0" * 64, "shares": page}))

    return Starlette(routes=[Route("/v1/phases/{p}/attempts/{a}/collection/shares", shares)])


@pytest.mark.parametrize("lie", ["without end", "too long", "no base64"])
def test_pages_of_shares_over_http_are_bounded(lie: str) -> None:
    deployed, _, _ = collecting("split")
    plan: Plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    from dpbandits.service.coordinator._revealed import own_sums

    with served(_pages(lie)) as url:
        link = HttpLink(url, new_secret())
        with pytest.raises(ProtocolError, match="the shuffler sent|the reply is not a SharesReply"):
            own_sums(deployed.context, plan, 1, {f"{1:064x}": "0" * 64}, link.shares(1, 1))
        link._transport.close()
    deployed.close()


def _handshake(certificate: Path, key: Path, trusted: Path, host: str) -> str:
    """Return whether a caller that trusts a file accepts a server with this certificate as `host`."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            connection, _ = listening.accept()
            try:
                server.wrap_socket(connection, server_side=True).close()
            except (ssl.SSLError, OSError):
                connection.close()

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            with socket.create_connection(listening.getsockname()) as plain:
                trusting(trusted).wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLError as error:
            return str(error)
        finally:
            thread.join()
    return "trusted"


def _forged(tmp_path: Path, issuer: Path, issuer_key: Path, host: str) -> tuple[Path, Path]:
    """Make a certificate for another host, signed with the key of a self-signed certificate."""
    own = x509.load_pem_x509_certificate(issuer.read_bytes())
    signer: Any = load_pem_private_key(issuer_key.read_bytes(), password=None)
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]))
        .issuer_name(own.subject)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(signer, hashes.SHA256())
    )
    chain, private = tmp_path / "forged.pem", tmp_path / "forged-key.pem"
    chain.write_bytes(made.public_bytes(Encoding.PEM) + issuer.read_bytes())
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return chain, private


def test_a_self_made_certificate_cannot_vouch_for_another(tmp_path: Path) -> None:
    certificate, key = tmp_path / "shuffler.pem", tmp_path / "shuffler-key.pem"
    self_signed(certificate, key, ["shuffler.test"])
    assert _handshake(certificate, key, certificate, "shuffler.test") == "trusted"
    assert _handshake(certificate, key, certificate, "coordinator.test") != "trusted"
    chain, private = _forged(tmp_path, certificate, key, "coordinator.test")
    assert _handshake(chain, private, certificate, "coordinator.test") != "trusted"


def test_a_share_alone_is_uniform_and_a_forged_one_changes_no_checksum_unseen() -> None:
    from dpbandits.service.wire import set_checksum

    rng = np.random.default_rng(1)
    shares = [(f"{number:064x}", rng.bytes(80)) for number in range(5)]
    whole = set_checksum(shares)
    assert whole == set_checksum(list(shares))
    others = [shares[:-1], [*shares[:-1], (shares[-1][0], rng.bytes(80))], [*shares, (f"{9:064x}", b"")]]
    assert whole not in {set_checksum(one) for one in others}
