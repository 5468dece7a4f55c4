"""The order in which a phase plays its actions: random within blocks, from a seed that everybody can compute.

If each action were played in one piece, one would be played in the morning and another one in the evening,
and the time of day would favour an option. So a phase is divided into blocks of about equal length, in which
every action has its share of plays. The order of the actions within each block is random.

The seed is public: it is a function of the plan's digest and the number of the attempt. So coordinator,
actuator and clients agree on the order without another message, and a client that knows the number of the
current round knows which action is played. docs/protocol.md gives the rule for other languages.
"""

from __future__ import annotations

import hashlib

from dpbandits._checks import whole
from dpbandits.protocol._messages import Plan

MOST_BLOCKS = 8
"""The largest number of blocks. More blocks would balance the time of day better, with more changes."""


def play_order(plan: Plan, *, attempt: int = 1) -> tuple[tuple[int, int], ...]:
    """Return the runs of a phase in the order of play: an action, and for how many consecutive rounds.

    Each of b ≤ 8 blocks has ⌊n/b⌋ or ⌈n/b⌉ of the n plays of an action. Example: a plan with 4 plays of
    action 3 and 2 of action 7 has four blocks, and may return (7, 1), (3, 1), (3, 1), (3, 1), (7, 1), (3, 1).

    Args:
        plan: The plan of the phase.
        attempt: The number of the attempt at the phase; another attempt has another order.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import play_order
        >>> sum(plays for _, plays in play_order(examples.plan()))
        10
    """
    seed = f"dpbandits order of play|{plan.digest}|{whole(1, attempt=attempt)}"
    blocks = min(MOST_BLOCKS, max(plan.plays))
    places = range(len(plan.support))
    # A random offset decides which blocks get the plays that remain after an equal division.
    offsets = [_number(f"{seed}|offset|{place}") % blocks for place in places]
    runs = list[tuple[int, int]]()
    for block in range(blocks):
        for place in sorted(places, key=lambda place: _number(f"{seed}|{block}|{place}")):
            before = (block * plan.plays[place] + offsets[place]) // blocks
            after = ((block + 1) * plan.plays[place] + offsets[place]) // blocks
            if after > before:
                runs.append((plan.support[place], after - before))
    return tuple(runs)


def action_at(plan: Plan, played: int, *, attempt: int = 1) -> int | None:
    """Return the action of the next round, after `played` rounds; None if all rounds were played.

    Args:
        plan: The plan of the phase.
        played: How many rounds were played.
        attempt: The number of the attempt at the phase.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import action_at
        >>> plan = examples.plan()
        >>> action_at(plan, 0) in plan.support, action_at(plan, plan.rounds)
        (True, None)
    """
    for action, plays in play_order(plan, attempt=attempt):
        if played < plays:
            return action
        played -= plays
    return None


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
