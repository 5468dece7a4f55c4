"""`dpbandits client`: the reference client, for one client or several in one process."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dpbandits.actions import read_matrix
from dpbandits.cli._parser import add_choice, add_flag, add_value, number, whole_number
from dpbandits.cli._privacy_options import TRUSTS
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import DpbanditsError, InvalidValue
from dpbandits.protocol import Plan
from dpbandits.service.wire import MODES

if TYPE_CHECKING:
    from dpbandits.service.client import Consent, MemoryFile
    from dpbandits.service.wire import Pins


_End = bool | str | DpbanditsError
"""How a client ended: True if its report was accepted, or the error that ended it. If there was neither, the
text of its last connection error, which may be empty."""

_MOST_FAILED = 100  # statuses above 125 have other meanings in a shell

DESCRIPTION = (
    "Take part in the study at URL: check its terms, enrol, wait to be asked, and send one report, with "
    "noise drawn on this machine. If the terms or a plan protect less than agreed, no report is sent. In the "
    "shuffle model, pin the study with --terms, --operator-key, or --shuffler-url and --shuffler-key. With "
    "several codes, the exit status is the number of clients that ended with an error, at most 100."
)
_REWARDS = (
    "a .csv or .npz file with one row per code: the client's average reward of every action of the study"
)
_MEMORY = "file for the state that must survive a restart; with several codes, a folder for these files"
_SILENT = "share of reports without noise that the guarantee must at least tolerate"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("url", metavar="URL", help="address of the coordinator")
    add_value(parser, "--codes", Path, "FILE", "file with one enrolment code per line", required=True)
    add_value(parser, "--rewards", Path, "FILE", _REWARDS, required=True)
    add_value(parser, "--memory", Path, "PATH", _MEMORY)
    add_value(parser, "--certificates", Path, "FILE", "certificates to trust for the URL")
    add_value(parser, "--shuffler-certificates", Path, "FILE", "certificates to trust for the shuffler")
    pins = parser.add_argument_group("pins: values that you know from a source other than the coordinator")
    add_value(pins, "--terms", str, "HEX", "digest of the study's terms (dpbandits terms)")
    add_value(pins, "--operator-key", str, "HEX", "public key that signed the terms")
    add_value(pins, "--shuffler-url", str, "URL", "address of the shuffler")
    add_value(pins, "--shuffler-key", str, "HEX", "public key of the shuffler")
    consent = parser.add_argument_group("consent: the least protection that you accept")
    trusts = "trust model that you accept; repeat for several (default: local, shuffle)"
    add_choice(consent, "--accept", TRUSTS, trusts, action="append")
    add_value(consent, "--epsilon", number, "E", "largest ε", 1.0)
    add_value(consent, "--delta", number, "D", "largest δ", 1e-6)
    modes = "shuffler mode that you accept; repeat for several (default: all)"
    add_choice(consent, "--mode", MODES, modes, action="append")
    add_value(consent, "--minimum-cohort", whole_number, "N", "fewest reports in a release", 1)
    add_value(
        consent,
        "--largest-cohort",
        whole_number,
        "N",
        "most clients in a cohort (default: the largest that the protocol allows)",
    )
    add_value(consent, "--silent-share", number, "S", _SILENT, 0.0)
    add_flag(consent, "--biased-bits", "accept the paper's noise bits, which are not fair coins")


def run(options: argparse.Namespace) -> int:
    """Run all clients concurrently, and print how many reports were accepted.

    Returns:
        The number of clients that ended with an error, at most 100. The other clients continue.

    Raises:
        DpbanditsError: There is a single code, and its client ended with this error.
    """
    require_service()
    codes = _lines(options.codes)
    rewards = read_matrix(options.rewards)
    if len(rewards) != len(codes):
        raise InvalidValue("rewards", f"{len(rewards)} rows", f"{len(codes)} rows, one per code")
    ends = asyncio.run(_run_all(options, codes, [row.tolist() for row in rewards]))
    failed = {line: end for line, end in enumerate(ends, 1) if isinstance(end, DpbanditsError)}
    if len(codes) == 1 and failed:
        raise failed[1]
    lines_of_error = defaultdict[str, list[str]](list)
    for line, error in failed.items():  # a code is a secret, so a client is named by its place in the file
        lines_of_error[str(error).replace(codes[line - 1], "…")].append(str(line))
    for told, lines in lines_of_error.items():
        print(f"dpbandits client: code {', '.join(lines)} of {len(codes)}: {told}", file=sys.stderr)
    for trouble, clients in Counter(end for end in ends if isinstance(end, str) and end).items():
        print(f"{clients} of the clients without a report could not connect: {trouble}", file=sys.stderr)
    accepted = sum(end is True for end in ends)
    print(f"{accepted} of {len(codes)} reports were accepted" + (f"; {len(failed)} failed" if failed else ""))
    return min(len(failed), _MOST_FAILED)


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InvalidValue("codes", path, "an existing file")
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


async def _run_all(options: argparse.Namespace, codes: list[str], rewards: list[list[float]]) -> list[_End]:
    """How each client ended, in the order of the codes."""
    from dpbandits.service.client import AsyncClient, ClientCore, take_part
    from dpbandits.service.shared import AsyncTransport

    memory = _memory(options.memory, len(codes))
    consent, pins = _consent(options), _pins(options)
    certificates, per_party = await _certificates(options, consent, pins)
    async with AsyncTransport(certificates=certificates, per_party=per_party) as transport:

        async def end(code: str, row: list[float]) -> _End:
            core = ClientCore(url=options.url.rstrip("/"), consent=consent, pins=pins)
            client = AsyncClient(core, transport)
            try:
                if (kept := memory(code)) is not None:
                    core.memory, core.save = kept.load(), kept.save
                return await take_part(client, code, _averages(row)) or client.core.trouble
            except DpbanditsError as error:  # each client ends on its own
                return error

        return await asyncio.gather(*(end(code, row) for code, row in zip(codes, rewards, strict=True)))


def _memory(path: Path | None, clients: int) -> Callable[[str], MemoryFile | None]:
    """Return a function from a code to the file with its client's memory; None if nothing is kept."""
    from dpbandits.service.client import MemoryFile, MemoryFolder

    if path is None:
        return lambda _code: None
    if clients > 1 or path.is_dir():
        return MemoryFolder(path).of
    return lambda _code: MemoryFile(path)


def _consent(options: argparse.Namespace) -> Consent:
    from dpbandits.service.client import Consent

    default = Consent()
    return Consent(
        trusts=tuple(options.accept or default.trusts),
        epsilon=options.epsilon,
        delta=options.delta,
        modes=tuple(options.mode or default.modes),
        minimum_cohort=options.minimum_cohort,
        largest_cohort=default.largest_cohort if options.largest_cohort is None else options.largest_cohort,
        least_silent_share=options.silent_share,
        biased_bits=options.biased_bits,
    )


def _pins(options: argparse.Namespace) -> Pins:
    from dpbandits.service.wire import Pins, PublicKey, VerifyKey

    return Pins(
        terms=options.terms,
        operator_key=None if options.operator_key is None else VerifyKey.parse(options.operator_key),
        shuffler_url=options.shuffler_url,
        shuffler_key=None if options.shuffler_key is None else PublicKey.parse(options.shuffler_key),
    )


async def _certificates(
    options: argparse.Namespace, consent: Consent, pins: Pins
) -> tuple[Path | None, dict[str, Path]]:
    """The certificates to trust, in general and for the shuffler, whose address is in the terms."""
    from dpbandits.service.client import AsyncClient, ClientCore
    from dpbandits.service.shared import AsyncTransport

    if options.shuffler_certificates is None:
        return options.certificates, {}
    async with AsyncTransport(certificates=options.certificates) as transport:
        asking = AsyncClient(ClientCore(url=options.url.rstrip("/"), consent=consent, pins=pins), transport)
        terms = await asking.agree()
    shuffler = {} if terms.shuffler is None else {terms.shuffler.url: options.shuffler_certificates}
    return options.certificates, shuffler


def _averages(row: list[float]) -> Callable[[Plan], list[float]]:
    def supported(plan: Plan) -> list[float]:
        if max(plan.support) >= len(row):
            raise InvalidValue("rewards", f"{len(row)} columns", "one column per action of the study")
        return [row[action] for action in plan.support]

    return supported
