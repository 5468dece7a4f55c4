"""The faults of a run: a list that is drawn from a seed, and that can be saved and shortened."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from dpbandits.storage._migrations import NEWEST
from tests.service.helpers import MODELS

from .lies import Fault, draw_lies

MESSAGE_KINDS = ("lose", "lose-reply", "duplicate", "reorder", "delay", "truncate", "replay")
CLIENT_STAGES = ("enrolled", "joined", "sealed", "sent")
VANISHING = 0.3

_BOTH = ("before-commit", "after-commit")
_OPENING = tuple(
    f"migrate-{number}-{when}" for number in range(1, NEWEST + 1) for when in ("statement", *_BOTH)
)
COORDINATOR_STEPS = (
    *_OPENING,
    *(
        f"{name}-{when}"
        for name in (
            "begin",
            "codes",
            "enrol",
            "join",
            "ask",
            "gathered",
            "played",
            "rounds",
            "release",
            "learn",
            "read",
        )
        for when in _BOTH
    ),
    "release-noise-drawn",
    "release-intended",
    "release-journalled",
)
HERE_STEPS = (
    "closed-before-commit",
    "closed-after-commit",
    "report-before-commit",
    "report-after-commit",
    "ask-again-before-commit",
    "ask-again-after-commit",
)
LINK_STEPS = (
    "opened-before-commit",
    "opened-after-commit",
    "shuffler-opened",
    "shuffler-closed",
    "away-before-commit",
    "away-after-commit",
    "extended-before-commit",
    "extended-after-commit",
    "clock-set-back-before-commit",
    "clock-set-back-after-commit",
)
TRUSTED_STEPS = ("revealed-sums-before-commit", "revealed-sums-after-commit")
SPLIT_STEPS = ("own-sums-before-commit", "own-sums-after-commit")
VERIFIED_STEPS = (*SPLIT_STEPS, "page-verified")
SHUFFLER_STEPS = (
    *_OPENING,
    *(f"{name}-{when}" for name in ("open", "report", "close", "read") for when in _BOTH),
    "sums-journalled",
)
SPLIT_SHUFFLER_STEPS = ("sums-before-commit", "sums-after-commit")
VERIFIED_SHUFFLER_STEPS = (*SPLIT_SHUFFLER_STEPS, "verifiers-computed")
_OWN_STEPS = {"trusted": TRUSTED_STEPS, "split": SPLIT_STEPS, "verified": VERIFIED_STEPS}
_OWN_SHUFFLER_STEPS = {"split": SPLIT_SHUFFLER_STEPS, "verified": VERIFIED_SHUFFLER_STEPS}

_CLIENT_NOISES = ("", "discrete-gaussian")
_NOISES = {
    "trusted": _CLIENT_NOISES,
    "split": _CLIENT_NOISES,
    "verified": (*_CLIENT_NOISES, "server-gaussian", "server-gaussian"),
}

_MESSAGES = 700  # faults of messages affect only this many messages
_CLIENTS = 200  # clients that may vanish or restart


@dataclass(frozen=True, kw_only=True)
class Case:
    """A run. The seed determines all but the faults. An empty `noise` is the trust model's default."""

    seed: str
    trust: str
    mode: str | None
    faults: tuple[Fault, ...]
    noise: str = ""

    def counts(self) -> Counter[str]:
        return Counter(fault.kind for fault in self.faults)


def steps_of(party: str, mode: str | None) -> tuple[str, ...]:
    """Return the journal steps at which a party can be killed in this mode."""
    if party == "shuffler":
        return SHUFFLER_STEPS + _OWN_SHUFFLER_STEPS.get(mode or "", ())
    if mode is None:
        return COORDINATOR_STEPS + HERE_STEPS + LINK_STEPS[-2:]
    return COORDINATOR_STEPS + HERE_STEPS[4:] + LINK_STEPS + _OWN_STEPS[mode]


def draw_case(seed: int, number: int) -> Case:
    """Draw a case. Trust models alternate, and so do the journal steps within a model; the rest is random."""
    trust, mode = MODELS[number % len(MODELS)]
    rng = random.Random(f"{seed}/{number}")
    faults = [
        *_kills(rng, mode, number // len(MODELS)),
        *_messages(rng),
        *_machines(rng, mode),
        *_clients(rng),
        *draw_lies(rng, mode),
    ]
    noise = rng.choice(_NOISES.get(mode or "", ("",)))
    return Case(seed=f"{seed}/{number}", trust=trust, mode=mode, faults=tuple(faults), noise=noise)


def _parties(mode: str | None) -> tuple[str, ...]:
    return ("coordinator",) if mode is None else ("coordinator", "shuffler")


def _kills(rng: random.Random, mode: str | None, turn: int) -> list[Fault]:
    everywhere = [(party, step) for party in _parties(mode) for step in steps_of(party, mode)]
    chosen = [everywhere[turn % len(everywhere)], *rng.sample(everywhere, rng.randrange(5))]
    chosen = list(dict.fromkeys(chosen))
    steps = [
        Fault(kind="kill-at-step", party=party, step=step, value=_nth(rng, step)) for party, step in chosen
    ]
    times = [
        Fault(
            kind="kill-at-time",
            at=rng.randrange(_MESSAGES),
            party=rng.choice(_parties(mode)),
            value=rng.uniform(0, 0.006),
        )
        for _ in range(rng.randrange(4))
    ]
    return steps + times + _occasions(rng, mode, chosen[0][1])


def _nth(rng: random.Random, step: str) -> int:
    """Draw the occurrence of a step at which to kill. Steps that occur often are also killed later."""
    often = {
        "enrol": 20,
        "join": 20,
        "read": 60,
        "report": 4,
        "rounds": 3,
        "codes": 1,
        "begin": 1,
        "migrate": 1,
    }
    return rng.randint(1, next((most for name, most in often.items() if step.startswith(name)), 2))


def _occasions(rng: random.Random, mode: str | None, step: str) -> list[Fault]:
    """Return the faults without which a step would never occur."""
    at = [rng.randrange(60, 400) for _ in range(4)]
    if step.startswith("clock-set-back"):
        return [Fault(kind="clock-jump", at=when, value=-rng.uniform(100, 1e5)) for when in at]
    if step.startswith(("away", "extended")) and mode is not None:
        return [Fault(kind="shuffler-away", at=when, value=rng.uniform(120, 300)) for when in at]
    if step.startswith("ask-again"):
        return [Fault(kind="vanish", at=number, step="joined") for number in range(16)]
    return []


def _messages(rng: random.Random) -> list[Fault]:
    rate = rng.choice((0.0, 0.02, 0.1, 0.25))
    numbers = [number for number in range(_MESSAGES) if rng.random() < rate]
    return [_message(rng, number) for number in numbers]


def _message(rng: random.Random, number: int) -> Fault:
    kind = rng.choice(MESSAGE_KINDS)
    spans = {"reorder": (1, 12), "delay": (30, 300), "replay": (1, 600)}
    if kind in spans:
        return Fault(kind=kind, at=number, value=rng.randint(*spans[kind]))
    if kind == "truncate":
        return Fault(kind=kind, at=number, value=rng.random(), step=rng.choice(("cut", "short")))
    return Fault(kind=kind, at=number)


def _machines(rng: random.Random, mode: str | None) -> list[Fault]:
    found = list[Fault]()
    for party in _parties(mode):
        if rng.random() < 0.35:
            how, messages = rng.choice(("limit", "limit-later", "pages")), int(10 ** rng.uniform(0.7, 2.5))
            at = rng.randrange(_MESSAGES // 2)
            found.append(Fault(kind="disk-full", at=at, party=party, step=how, value=messages))
    for _ in range(rng.choice((0, 0, 1, 2))):
        jump = rng.choice((-1, 1)) * 10 ** rng.uniform(0, 6)
        found.append(Fault(kind="clock-jump", at=rng.randrange(_MESSAGES), value=jump))
    if mode is not None and rng.random() < 0.4:
        seconds = rng.uniform(120, 900)
        found.append(Fault(kind="shuffler-away", at=rng.randrange(_MESSAGES // 2), value=seconds))
    return found


def _clients(rng: random.Random) -> list[Fault]:
    found = list[Fault]()
    for number in range(_CLIENTS):
        if rng.random() < VANISHING:
            found.append(Fault(kind="vanish", at=number, step=rng.choice(CLIENT_STAGES)))
        elif rng.random() < 0.1:
            found.append(Fault(kind="client-restart", at=number, step=rng.choice(CLIENT_STAGES)))
    return found
