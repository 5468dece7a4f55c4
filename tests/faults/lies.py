"""The lies of a run: faults of four kinds, drawn from its seed.

    client-lie        `at` is the number of the client, `step` the lie
    actuator-lie      `at` is the position of the lie in the order of all lies
    shuffler-lie      `party` is the call whose reply is changed, `at` the number of honest replies before it
    coordinator-lie   `at` is the number of the client that receives the lie, `party` the request

`value` is a seed for the details of a lie. A run without `shuffler-lie` has an honest shuffler.
"""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault or a lie. `at` is the number of a message or a client; `value` depends on the kind."""

    kind: str
    at: int = 0
    party: str = ""
    step: str = ""
    value: float = 0.0


LIES = ("client-lie", "actuator-lie", "shuffler-lie", "coordinator-lie")

CLIENT_LIES = (
    "random", "short", "long", "huge", "empty", "other-place", "other-key", "stolen", "second", "at-once",
    "second-name", "taken-name", "pseudonym-ticket", "unknown-phase", "early", "other-code", "no-json",
    "averages", "extreme", "range",
)  # fmt: skip
SHUFFLED_LIES = ("elsewhere",)
SPLIT_LIES = ("other-tag", "half-unreadable", "half-range", "residues")
VERIFIED_LIES = ("other-tag", "half-unreadable", "half-range", "proof")

ACTUATOR_LIES = ("negative", "huge", "no-number", "too-many", "fewer", "future", "other-attempt", "past")

ANY_PAGE = ("error-page", "random-json", "no-json")
_ABOUT = (*ANY_PAGE, "other-phase", "other-study", "unknown-state", "count-high", "count-negative")
_SUMS = ("sums-short", "sums-large", "sums-negative", "moved")
SHUFFLER_LIES = {
    "trusted": {
        "open": (*_ABOUT, "failed", "summed"),
        "look": (*_ABOUT, "failed", "summed"),
        "close": (*_ABOUT, *_SUMS, "failed", "closed"),
    },
    "split": {
        "open": (*_ABOUT, "failed", "summed"),
        "look": (*_ABOUT, "failed", "summed"),
        "close": (*_ABOUT, "failed", "summed"),
        "shares": (
            *ANY_PAGE, "twice", "unordered", "invented", "forged", "misnamed", "no-base64", "too-long",
            "endless", "withheld", "hidden", "cloned",
        ),
        "sums": (*_ABOUT, *_SUMS, "count-low", "checksum", "failed", "closed"),
    },
    "verified": {
        "open": (*_ABOUT, "failed", "summed"),
        "look": (*_ABOUT, "failed", "summed"),
        "close": (*_ABOUT, "failed", "summed"),
        "verifiers": (
            *ANY_PAGE, "twice", "unordered", "invented", "forged", "misnamed", "no-base64", "too-long",
            "endless", "withheld", "hidden", "answer",
        ),
        "sums": (
            *_ABOUT, "share-short", "share-random", "moved", "count-low", "checksum", "failed", "closed",
        ),
    },
}  # fmt: skip
COORDINATOR_LIES = {
    "study": (*ANY_PAGE, "terms-field", "signature", "digest"),
    "clients": (*ANY_PAGE, "digest"),
    "tasks": (
        *ANY_PAGE, "plan-field", "plan-noise", "plan-digest", "plan-study", "state", "phase", "attempt",
        "no-plan", "digest",
    ),
    "reports": (*ANY_PAGE, "taken"),
}  # fmt: skip

_PEOPLE = 200  # clients that may lie or receive lies


def client_lies(mode: str | None) -> tuple[str, ...]:
    """Return the lies that a client can tell in this mode."""
    shuffled = CLIENT_LIES + (SHUFFLED_LIES if mode is not None else ())
    return shuffled + {"split": SPLIT_LIES, "verified": VERIFIED_LIES}.get(mode or "", ())


def draw_lies(rng: random.Random, mode: str | None) -> list[Fault]:
    """Draw the lies of a run. Each kind of liar occurs in half of the runs."""
    found = list[Fault]()
    if rng.random() < 0.5:
        found += _people(rng, "client-lie", [("", lie) for lie in client_lies(mode)])
    if rng.random() < 0.5:
        lies = [rng.choice(ACTUATOR_LIES) for _ in range(rng.randint(1, 8))]
        found += [
            Fault(kind="actuator-lie", at=at, step=lie, value=rng.random()) for at, lie in enumerate(lies)
        ]
    if rng.random() < 0.5 and mode is not None:
        found += [_of_shuffler(rng, SHUFFLER_LIES[mode]) for _ in range(rng.randint(1, 4))]
    if rng.random() < 0.5:
        requests = list(COORDINATOR_LIES) if mode is None else list(COORDINATOR_LIES)[:3]
        requests.append("tasks")  # twice as often, because its reply has the plan
        found += _people(
            rng, "coordinator-lie", [(one, lie) for one in requests for lie in COORDINATOR_LIES[one]]
        )
    return found


def _people(rng: random.Random, kind: str, lies: list[tuple[str, str]]) -> list[Fault]:
    rate = rng.choice((0.15, 0.3, 0.5))
    numbers = [number for number in range(_PEOPLE) if rng.random() < rate]
    chosen = [(number, *rng.choice(lies)) for number in numbers]
    return [
        Fault(kind=kind, at=number, party=party, step=lie, value=rng.random())
        for number, party, lie in chosen
    ]


def _of_shuffler(rng: random.Random, lies: dict[str, tuple[str, ...]]) -> Fault:
    call = rng.choice([one for one in lies for _ in range(1 if one in ("open", "look") else 3)])
    return Fault(
        kind="shuffler-lie", party=call, step=rng.choice(lies[call]), at=rng.randrange(4), value=rng.random()
    )
