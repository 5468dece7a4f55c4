"""The participants that `dpbandits plan --write` reserves for a confirmation and for a fit test."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any

from dpbandits._checks import positive, whole
from dpbandits.answers import RewardRange
from dpbandits.cli._parser import add_value, number
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.protocol import Confirmation, FitTest, Schedule, Spending, Study, reserved, reserved_fit_test
from dpbandits.simulation import Setting


def add_reserving_options(group: Any) -> None:
    """Add the options for cohorts that `--write` reserves after the learning phases."""
    confirm = "with --write and --current: reserve a fifth of the participants to compare finalists with it"
    group.add_argument("--confirm", action=argparse.BooleanOptionalAction, default=True, help=confirm)
    notice = (
        "with --write: reserve participants for a test that notices a misfit of M, in units of the reward"
    )
    add_value(group, "--notice-misfit", number, "M", notice)


@dataclass(frozen=True, kw_only=True)
class Reserved:
    """A setting with the participants of the learning phases, and the cohorts of the other participants."""

    setting: Setting
    confirmation: Confirmation | None = None
    fit_test: FitTest | None = None

    def study(self, study: Study) -> Study:
        """Return a planned study with the reserved cohorts."""
        return replace(study, confirmation=self.confirmation, fit_test=self.fit_test)

    def words(self) -> str:
        """Return what is reserved, in words; empty if nothing is reserved."""
        found = list[str]()
        if self.fit_test is not None:
            found.append(
                f"{self.fit_test.cohort:,} participants test whether the features explain the rewards"
            )
        if self.confirmation is not None:
            found.append(
                f"{self.confirmation.cohort:,} participants compare finalists with the current option"
            )
        return ", ".join(found)


def reserve(setting: Setting, options: Options | None, given: argparse.Namespace) -> Reserved:
    """Reserve the participants that a study file with `participants` reserves.

    Args:
        setting: The setting, with all participants.
        options: The table of options; None if the actions have no names.
        given: The options of the command.

    Returns:
        The setting with the participants that are left for learning, and the reserved cohorts.

    Raises:
        InvalidValue: There are too few participants, or `--notice-misfit` is not above 0.
    """
    total = setting.cohorts.participants or setting.exponential().participants(setting.horizon)
    current = None if options is None or options.current is None else options.index(options.current)
    confirms = given.confirm and current is not None
    if not total or not (confirms or given.notice_misfit is not None):
        return Reserved(setting=setting)
    everybody = Spending(schedule=Schedule(cohorts=(total,)), design_tolerance=Study.design_tolerance)
    unlimited = setting.changed(privacy=setting.privacy.of_members, population=None)
    study, test, confirmation = unlimited.study(setting.instance(0).actions, everybody), None, None
    if given.notice_misfit is not None:
        half = RewardRange.of(given.reward_range, bound=study.bound).half
        test = reserved_fit_test(study, total, positive(notice_misfit=given.notice_misfit) / half)
    if confirms and current is not None:
        confirmation = reserved(study, total, current=current)
    taken = sum(own.cohort for own in (test, confirmation) if own is not None)
    left = whole(1, participants=total - taken)
    return Reserved(setting=setting.changed(participants=left), confirmation=confirmation, fit_test=test)


def check_reserving(given: argparse.Namespace) -> None:
    """Check the options before the planning.

    Raises:
        InvalidValue: `--notice-misfit` is given without `--write`.
    """
    if given.notice_misfit is not None and given.write is None:
        expected = "--write as well: the test is part of a study file"
        raise InvalidValue("notice_misfit", given.notice_misfit, expected)
