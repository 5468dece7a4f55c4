"""`dpbandits client`: the reference agent, for one client or for many in one process."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpbandits.actions import read_matrix
from dpbandits.cli.parser import DefaultsInHelp, number
from dpbandits.cli.service_extra import require_service
from dpbandits.errors import InvalidValue
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan


def add_to(commands: Any) -> None:
    """Add the command and its options."""
    parser = commands.add_parser(
        "client",
        help="take part in a study",
        description="Take part in the study at URL: enrol, wait to be asked, and answer once, with noise "
        "drawn on this machine. A plan that protects less than agreed gets no answer.",
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
    parser.add_argument("--certificates", metavar="FILE", type=Path, help="whom to trust for TLS")
    parser.add_argument("--shuffler-key", metavar="HEX", help="pin the shuffler's public key")
    parser.add_argument(
        "--accept",
        choices=TRUST_MODELS,
        action="append",
        help="trust models agreed to (default: local, shuffle)",
    )
    parser.add_argument("--epsilon", type=number, default=1.0, metavar="E", help="agreed to at most")
    parser.add_argument("--delta", type=number, default=1e-6, metavar="D", help="agreed to at most")


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
    from dpbandits.service.agent import take_part
    from dpbandits.service.client import AsyncClient, ClientCore
    from dpbandits.service.consent import Consent
    from dpbandits.service.memory_file import MemoryFile
    from dpbandits.service.sealing import PublicKey
    from dpbandits.service.transport import AsyncTransport

    consent = Consent(
        trusts=tuple(options.accept or Consent().trusts), epsilon=options.epsilon, delta=options.delta
    )
    key = None if options.shuffler_key is None else PublicKey.parse(options.shuffler_key)
    async with AsyncTransport(certificates=options.certificates) as transport:

        def core() -> ClientCore:
            made = ClientCore(url=options.url.rstrip("/"), consent=consent, shuffler_key=key)
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


def _averages(row: list[float]) -> Callable[[Plan], list[float]]:
    def supported(plan: Plan) -> list[float]:
        if max(plan.support) >= len(row):
            raise InvalidValue("rewards", f"{len(row)} columns", "one for every action of the study")
        return [row[action] for action in plan.support]

    return supported
