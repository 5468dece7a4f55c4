"""The source of a site's data: the interface `DataSource`, and `TableSource`, which reads a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan


class DataSource(Protocol):
    """The users of a site and their rewards. A site implements this for its own systems.

    Example:
        >>> import numpy as np
        >>> from dpbandits.federation import DataSource
        >>> class Clinic:  # every action has reward 1 for every patient
        ...     def users(self):
        ...         return ["ann", "bob"]
        ...     def averages(self, users, plan):
        ...         return np.ones((len(users), len(plan.support)))
        >>> source: DataSource = Clinic()
        >>> source.users()
        ['ann', 'bob']
    """

    def users(self) -> Sequence[str]:
        """Return the names of all users who consent to the study, whether they have taken part or not.

        A name must stay the same for the whole study: the ledger recognises users by their names.
        """
        ...

    def averages(self, users: Sequence[str], plan: Plan) -> FloatArray:
        """Play the plan for some users and return their average rewards.

        If the site crashes before it answers, it calls this method again with the same users and plan.

        Args:
            users: Names of users. The ledger has marked them as used before this call.
            plan: The plan: `plan.support[i]` is played for `plan.plays[i]` rounds.

        Returns:
            One row per user, in the order of `users`, and one column per action of `plan.support`. Rewards
            are on the scale of the study, [−bound, bound]. A row of NaN means that the user dropped out.
        """
        ...


class TableSource:
    """Average rewards from a CSV file: a column `user`, then one column per action, in the study's order.

    Args:
        path: The file. Blank lines are skipped.

    Raises:
        InvalidValue: The file does not exist, its first column is not `user`, it names a user twice, a cell
            is not a number, or a row has another length.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidValue("data", path, "an existing CSV file")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
        if not rows or rows[0][:1] != ["user"]:
            raise InvalidValue("data", path, "a CSV file whose first column is headed `user`")
        self._rows = {row[0]: number for number, row in enumerate(rows[1:])}
        if len(self._rows) != len(rows) - 1:
            raise InvalidValue("data", path, "a CSV file with one row per user")
        try:
            self._rewards = np.array([row[1:] for row in rows[1:]], dtype=np.float64)
        except ValueError:  # the message must not contain a cell
            raise InvalidValue("data", path, "a number in every cell, and rows of equal length") from None

    def users(self) -> Sequence[str]:
        """Return the names in the first column."""
        return list(self._rows)

    def averages(self, users: Sequence[str], plan: Plan) -> FloatArray:
        """Return the cells of some users for the actions of a plan."""
        rows = self._rewards[[self._rows[user] for user in users]]
        return np.asarray(rows[:, list(plan.support)], dtype=np.float64)
