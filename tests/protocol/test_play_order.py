"""The order of play: balanced over blocks, random within them, and the same for all who have the plan."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan, action_at, play_order


def _plan(plays: tuple[int, ...], study: str = "0" * 64) -> Plan:
    support = tuple(range(10, 10 + len(plays)))
    return Plan(study=study, phase=1, support=support, plays=plays, rank=1, mechanism=None)


def _actions(plan: Plan, attempt: int = 1) -> list[int]:
    return [action for action, plays in play_order(plan, attempt=attempt) for _ in range(plays)]


def _uneven(order: list[int], plan: Plan) -> float:
    """Return by how many plays an action is ahead or behind at most, relative to what blocks allow."""
    worst, blocks = 0.0, min(8, max(plan.plays))
    for action, plays in zip(plan.support, plan.plays, strict=True):
        share = plays / len(order)
        ahead = np.cumsum(np.array(order) == action) - share * np.arange(1, len(order) + 1)
        # Within a block an action may come first or last, and each share is rounded to a whole play.
        worst = max(worst, np.abs(ahead).max() / (plays / blocks + 2 + share * len(plan.plays)))
    return worst


@pytest.mark.parametrize("plays", [(1,), (1, 1, 1), (3, 100, 8), (64, 64), (1000, 7, 64, 2)])
def test_each_block_has_an_equal_share_of_every_action(plays: tuple[int, ...]) -> None:
    plan = _plan(plays)
    order = _actions(plan)
    assert [order.count(action) for action in plan.support] == list(plays)
    assert _uneven(order, plan) <= 1


def test_one_piece_per_action_is_uneven() -> None:
    plan = _plan((64, 64))
    assert _uneven([10] * 64 + [11] * 64, plan) > 2


def test_other_languages_can_compute_it_from_the_page() -> None:
    plan = _plan((2, 3, 1))

    def number(text: str) -> int:
        seed = f"dpbandits order of play|{plan.digest}|2|"
        return int(hashlib.sha256((seed + text).encode()).hexdigest()[:16], 16)

    blocks, expected = 3, list[tuple[int, int]]()
    for block in range(blocks):
        for place in sorted(range(3), key=lambda place: number(f"{block}|{place}")):
            plays, offset = plan.plays[place], number(f"offset|{place}") % blocks
            share = ((block + 1) * plays + offset) // blocks - (block * plays + offset) // blocks
            expected += [(plan.support[place], share)] * (share > 0)
    assert play_order(plan, attempt=2) == tuple(expected)
    assert [action_at(plan, played, attempt=2) for played in range(7)] == [*_actions(plan, 2), None]
    assert _actions(plan, 1) != _actions(plan, 2)
    with pytest.raises(InvalidValue, match="attempt: got 0, expected a whole number >= 1"):
        play_order(plan, attempt=0)


def test_no_action_has_an_earlier_place_on_average() -> None:
    plays, seeds = (2, 5, 8, 3), 2000
    places = np.zeros(4)
    for seed in range(seeds):
        order = np.array(_actions(_plan(plays, f"{seed:064x}")))
        places += [np.flatnonzero(order == own).mean() for own in (10, 11, 12, 13)]
    # The seeds are fixed, so this cannot fail by chance. One piece per action would be off by 7 places.
    assert np.abs(places / seeds - (sum(plays) - 1) / 2).max() < 0.2
