"""Schedules: lengths, cohorts and participants, compared with the paper's."""

from __future__ import annotations

from typing import Any

import pytest

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Schedule

from .helpers import small_study


def test_phases_double_from_two() -> None:
    assert [Schedule.exponential().length(phase) for phase in range(1, 7)] == [2, 4, 8, 16, 32, 64]


def test_cohorts_of_the_paper() -> None:
    # ⌈2^0.8⌉, ⌈2^1.6⌉, ⌈2^2.4⌉, ⌈2^3.2⌉, 2^4
    assert [Schedule(alpha=0.8).cohort(phase) for phase in range(1, 6)] == [2, 4, 6, 10, 16]
    assert Schedule(alpha=0.7).cohort(10) == 128  # although 0.7·10 is not exactly 7 in floating point


@pytest.mark.parametrize(
    ("alpha", "participants"), [(0.5, 437), (0.6, 997), (0.7, 2321), (0.8, 5532), (0.9, 13381)]
)
def test_participants_of_table_2(alpha: float, participants: int) -> None:
    assert Schedule(alpha=alpha).participants(50_000) == participants


def test_participants_of_the_main_experiments() -> None:
    assert Schedule(alpha=0.8).participants(10**6) == 50_796
    assert Schedule(alpha=0.9).participants(10**6) == 162_211


@pytest.mark.parametrize(
    ("horizon", "phases"), [(1, 0), (2, 1), (5, 1), (6, 2), (13, 2), (14, 3), (50_000, 14), (10**6, 18)]
)
def test_how_many_phases_can_report(horizon: int, phases: int) -> None:
    assert Schedule.exponential().reporting_phases(horizon) == phases


def test_fixed_and_capped_cohorts() -> None:
    assert Schedule(fixed_cohort=97).participants(10**6) == 18 * 97
    assert Schedule(alpha=0.8, maximum_cohort=20).cohort(9) == 20
    assert Schedule(alpha=50, maximum_cohort=20).cohort(9) == 20


def test_an_absurd_growth_is_refused() -> None:
    with pytest.raises(InvalidValue, match="phase 2 would ask 2\\^100"):
        Schedule(alpha=50).participants(10)


def test_a_schedule_names_one_rule_and_no_rule_is_the_default() -> None:
    with pytest.raises(InvalidValue, match="schedule: got alpha and cohorts, expected one of alpha"):
        Schedule(alpha=0.8, cohorts=(10,))
    with pytest.raises(InvalidValue, match="schedule: got no rule for the number of clients"):
        small_study(schedule=Schedule(first_length=50))


@pytest.mark.parametrize(
    "changes",
    [
        *[{"alpha": 0}, {"alpha": -1}, {"fixed_cohort": 0}, {"maximum_cohort": 0}, {"first_length": 0}],
        *[{"cohorts": ()}, {"cohorts": (5, 0)}, {"cohorts": (5, 10.5)}],
    ],
)
def test_bad_schedules_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(changes))):
        Schedule(**changes)
