"""`dpbandits federate`: run a study over sites that host many users each, with Flower as the transport."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dpbandits.cli._parser import add_value
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import DpbanditsError, InvalidValue

if TYPE_CHECKING:
    from dpbandits.federation import FederationFile
    from dpbandits.federation.flower import Server

DESCRIPTION = (
    "Run the study in STUDY.toml over sites: start a Flower SuperLink and the driver of the study, and stop "
    "them when the study ends. `federate terms STUDY.toml --out FILE` writes the terms for the sites. "
    "`federate explain STUDY.toml` says who must run what, and what each party sees. `federate site "
    "SITE.toml` runs a site. See docs/federation.md."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    tasks = "a study file; or a task and its file: terms STUDY.toml, explain STUDY.toml, site SITE.toml"
    parser.add_argument("words", metavar="[TASK] FILE.toml", nargs="+", help=tasks)
    add_value(parser, "--out", Path, "FILE", "with the task terms: new file for the terms")


def run(options: argparse.Namespace) -> int:
    """Do the task."""
    require_service()
    *task, file = options.words
    tasks = {(): _serve, ("terms",): _terms, ("explain",): _explain, ("site",): _site}
    if tuple(task) not in tasks:
        raise InvalidValue("task", " ".join(task), "terms, explain or site, then a file")
    if options.out is not None and task != ["terms"]:
        raise InvalidValue("out", options.out, "the task terms, since no other task accepts --out")
    return tasks[tuple(task)](Path(file), options.out)


def _serve(path: Path, _out: Path | None) -> int:
    from dpbandits.federation import read_federation
    from dpbandits.federation.flower import Server, require_flower

    require_flower()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    file = read_federation(path)
    print(f"SuperLink at {file.address} for {len(file.sites)} sites; logs in {file.folder}", flush=True)
    outcome = Server(file).run(_Progress(file).show)
    if not outcome.ended:
        raise DpbanditsError(outcome.told)
    print(outcome.told)
    return 0


class _Progress:
    """Prints a line for each attempt that ends."""

    def __init__(self, file: FederationFile) -> None:
        self._file = file
        self._shown = 0

    def show(self, _server: Server) -> None:
        """Print the attempts that have ended since the last call."""
        from dpbandits.storage import open_store

        try:
            store = open_store(self._file.storage, read_only=True)
        except DpbanditsError:  # the driver has not created the store yet
            return
        with store.transaction() as transaction:
            ended = [one for one in transaction.attempts() if one.over]
        store.close()
        for one in ended[self._shown :]:
            print(f"phase {one.phase}, attempt {one.number}: {one.state}, {one.joined:,} asked", flush=True)
        self._shown = len(ended)


def _terms(path: Path, out: Path | None) -> int:
    import msgspec

    from dpbandits.federation import federation_terms, read_federation
    from dpbandits.service.wire import SignedTerms

    file = read_federation(path)
    signed = file.signed
    if signed is None:
        signed = SignedTerms.of(federation_terms(file.study, address=file.address, key=file.keys.public))
    if out is not None:
        if out.exists():
            raise InvalidValue("out", out, "a path where there is no file yet")
        out.write_bytes(msgspec.json.encode(signed) + b"\n")
    print(msgspec.json.format(signed.terms, indent=2), file=sys.stderr)
    print(signed.digest)
    return 0


def _explain(path: Path, _out: Path | None) -> int:
    from dpbandits.federation import read_federation, roles

    study = read_federation(path).study
    privacy, found = study.privacy, roles(study.privacy.trust_model, study)
    promise = f"({privacy.epsilon:g}, {privacy.delta:g})-DP" if privacy.trust_model.private else "none"
    rows = {
        "guarantee": f"{promise} for each user, who takes part once",
        "SuperLink and ServerApp": f"run by {found.operator}",
        "their operator sees": found.operator_sees,
        "a site sees": found.site_sees,
        "everybody else sees": found.others_see,
        "needs": found.needs,
    }
    for name, text in rows.items():
        print(f"{name:>24}  {text}")
    print(f"{'each phase':>24}  dpbandits account --study {path}")
    return 0


def _site(path: Path, _out: Path | None) -> int:
    from dpbandits.federation import read_site
    from dpbandits.federation.flower import SuperNode, require_flower

    require_flower()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    file = read_site(path)
    node = SuperNode(file)
    print(f"site at SuperLink {file.address}; ledger {file.ledger}; logs in {file.folder}", flush=True)
    node.run()
    return 0
