"""`dpbandits client`: the reference agent, for one client or for many in one process."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbandits.actions import read_matrix
from dpbandits.cli._parser import DefaultsInHelp, number, whole_number
from dpbandits.cli._privacy_options import TRUSTS
from dpbandits.cli._service_extra import require_service
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan

if TYPE_CHECKING:
    from dpbandits.service.client import Consent
    from dpbandits.service.wire import Pins


def add_to(commands: Any, summary: str) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "client",
        help=summary,
        description="Take part in the study at URL: agree to its terms, enrol, wait to be asked, and answer "
        "once, with noise drawn on this machine. Terms or plans that protect less than agreed get no answer. "
        "In the shuffle model pin the study: --terms, --operator-key, or --shuffler-url and --shuffler-key.",
        formatter_class=DefaultsInHelp,
    )
    parser.set_defaults(run=run)
    parser.add_argument("url", metavar="URL", help="of the coordinator")
    parser.add_argument("--codes", metavar="FILE", type=Path, required=True, help="one enrolment code a line")
    parser.add_argument(
        "--rewards",
        metavar="FILE",
        type=Path,
        required=True,
        help="a .csv or .npz file: a row for each client, its average reward of every action of the study",
    )
    parser.add_argument("--memory", metavar="FILE", type=Path, help="keep what must survive a restart here")
    parser.add_argument("--certificates", metavar="FILE", type=Path, help="whom to trust for the URL's TLS")
    parser.add_argument(
        "--shuffler-certificates", metavar="FILE", type=Path, help="whom to trust for the shuffler's TLS"
    )
    _add_pins(parser)
    _add_consent(parser)


def _add_pins(parser: argparse.ArgumentParser) -> None:
    pins = parser.add_argument_group("what is known from elsewhere than the coordinator")
    pins.add_argument("--terms", metavar="HEX", help="the digest of the study's terms (dpbandits terms)")
    pins.add_argument("--operator-key", metavar="HEX", help="the public key that signed the terms")
    pins.add_argument("--shuffler-url", metavar="URL", help="the shuffler's address")
    pins.add_argument("--shuffler-key", metavar="HEX", help="the shuffler's public key")


def _add_consent(parser: argparse.ArgumentParser) -> None:
    consent = parser.add_argument_group("what is agreed to")
    consent.add_argument(
        "--accept", choices=TRUSTS, action="append", help="trust models (default: local, shuffle)"
    )
    consent.add_argument("--epsilon", type=number, default=1.0, metavar="E", help="at most")
    consent.add_argument("--delta", type=number, default=1e-6, metavar="D", help="at most")
    consent.add_argument(
        "--mode", choices=("trusted", "split"), action="append", help="shuffler modes (default: both)"
    )
    consent.add_argument(
        "--minimum-cohort",
        type=whole_number,
        default=1,
        metavar="N",
        help="reports in every release, at least",
    )
    consent.add_argument(
        "--largest-cohort", type=whole_number, metavar="N", help="clients in a cohort, at most"
    )
    consent.add_argument(
        "--silent-share",
        type=number,
        default=0.0,
        metavar="S",
        help="share of reports that may lack noise, at least",
    )
    consent.add_argument(
        "--biased-bits", action="store_true", help="also the paper's noise bits, which are not fair coins"
    )


def run(options: argparse.Namespace) -> int:
    """All clients at once; how many answers were accepted."""
    require_service()
    codes = _lines(options.codes)
    rewards = read_matrix(options.rewards)
    if len(rewards) != len(codes):
        raise InvalidValue("rewards", f"{len(rewards)} rows", f"{len(codes)}, one for each code")
    if options.memory is not None and len(codes) > 1:
        raise InvalidValue("memory", options.memory, "none with several clients in one process")
    accepted, troubles = asyncio.run(_run_all(options, codes, [row.tolist() for row in rewards]))
    for trouble, clients in troubles.items():
        print(f"not reached, by {clients} of the clients without an answer: {trouble}", file=sys.stderr)
    print(f"{accepted} of {len(codes)} answers were accepted")
    return 0


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise InvalidValue("codes", path, "an existing file")
    return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


async def _run_all(
    options: argparse.Namespace, codes: list[str], rewards: list[list[float]]
) -> tuple[int, Counter[str]]:
    """How many answers were accepted, and why the others could not reach a party, if that was it."""
    from dpbandits.service.client import AsyncClient, ClientCore, MemoryFile, take_part
    from dpbandits.service.shared import AsyncTransport

    consent, pins = _consent(options), _pins(options)
    certificates, per_party = await _certificates(options, consent, pins)
    async with AsyncTransport(certificates=certificates, per_party=per_party) as transport:

        def core() -> ClientCore:
            made = ClientCore(url=options.url.rstrip("/"), consent=consent, pins=pins)
            if options.memory is not None:
                kept = MemoryFile(options.memory)
                made.memory, made.save = kept.load(), kept.save
            return made

        cores = [core() for _ in codes]
        each = zip(cores, codes, rewards, strict=True)
        parts = (take_part(AsyncClient(one, transport), code, _averages(row)) for one, code, row in each)
        results = await asyncio.gather(*parts)
    without = (one.trouble for one, done in zip(cores, results, strict=True) if not done and one.trouble)
    return sum(results), Counter(without)


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
    """Whom to trust for which party's TLS; the shuffler's address is that of the terms agreed to."""
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
            raise InvalidValue("rewards", f"{len(row)} columns", "one for every action of the study")
        return [row[action] for action in plan.support]

    return supported
