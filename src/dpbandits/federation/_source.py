"""Where a site's data come from: a small interface, and tables as an example of it."""

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
        >>> class Clinic:  # every patient is content with everything
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

        It may be called again for the same users and plan if the site crashed before it answered.

        Args:
            users: Names of users. The ledger has marked them as used before this call.
            plan: The plan: `plan.support[i]` is played for `plan.plays[i]` rounds.

        Returns:
            One row per user, in their order, and one column per action of `plan.support`. Rewards are on the
            scale of the study, [−bound, bound]. A row of NaN means that the user dropped out.
        """
        ...


class TableSource:
    """Average rewards from a CSV file: a column `user`, then one column per action, in their order.

    Args:
        path: The file.

    Raises:
        InvalidValue: The file does not exist, has no column `user`, names a user twice, or has a cell that is
            no number.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise InvalidValue("data", path, "an existing CSV file")
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.reader(file))
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
