"""`GroupRounds`: rounds whose participants join in groups, such as the users of a site.

A group answers with one message for all of its members. It keeps a ledger of its own members, so the store of
the study knows only how many places each group has taken. A `Collector` adds up the answers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbandits._checks import whole
from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan, Study
from dpbandits.rounds._carrier import Collector
from dpbandits.rounds._participation import check_accepted, take_places
from dpbandits.rounds._rounds import Rounds
from dpbandits.storage import Attempt, Store, StoredReport, Transaction


@dataclass(frozen=True, kw_only=True)
class Group:
    """A group's part in one attempt.

    Attributes:
        phase: The phase.
        attempt: The number of the attempt.
        name: The name of the group.
        places: How many of its members may report.
    """

    phase: int
    attempt: int
    name: str
    places: int

    @property
    def entry(self) -> str:
        """The client name in the ledger of the study, which has one entry per group and attempt."""
        return f"{self.phase}.{self.attempt} {self.name}"

    @property
    def pseudonym(self) -> str:
        """The name under which the group answers. It contains `places`, so that this survives a crash."""
        return f"{self.phase}.{self.attempt} {self.places} {self.name}"

    @staticmethod
    def parse(pseudonym: str) -> Group:
        """Return the group with this pseudonym.

        Args:
            pseudonym: What `pseudonym` of the group returned.
        """
        number, places, name = pseudonym.split(" ", 2)
        phase, attempt = number.split(".")
        return Group(phase=int(phase), attempt=int(attempt), name=name, places=int(places))


class GroupRounds(Rounds):
    """A study on a store whose participants join in groups.

    Args:
        study: The study.
        store: The store.
        collector: The party that adds up the answers of groups.
        **options: Further arguments of `Rounds`.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.rounds import GroupRounds
        >>> from dpbandits.storage import MemoryStore
        >>> class Nothing:  # a party that never has enough reports
        ...     def open(self, plan, attempt):
        ...         pass
        ...     def is_collecting(self, attempt):
        ...         return True
        ...     def close(self, plan, attempt):
        ...         return None
        >>> rounds = GroupRounds(examples.study(), MemoryStore(), collector=Nothing())
        >>> attempt = rounds.settle()
        >>> plan = rounds.join_groups({"site-a": 12, "site-b": 8})
        >>> [(group.name, group.places) for group in rounds.groups(attempt)]
        [('site-a', 12), ('site-b', 8)]
    """

    def __init__(
        self, study: Study, store: Store, *, collector: Collector | None = None, **options: Any
    ) -> None:
        if collector is None:
            raise InvalidValue("collector", None, "a Collector: only it can read the answers of groups")
        super().__init__(study, store, collector=collector, **options)

    def join_groups(self, places: Mapping[str, int]) -> Plan:
        """Let groups join the current attempt, all or none. Their entries are durable on return.

        Args:
            places: For each group, how many of its members may report.

        Returns:
            The plan of the attempt.

        Raises:
            InvalidValue: A number of places is below 1.
            Refused: `already-asked` if a group has joined this attempt before; `no-place` if the study is
                paused or closed, or if the attempt is not gathering or has fewer places left.
        """

        def take(transaction: Transaction) -> Plan:
            latest, plan = self._locked(transaction)
            groups = [
                Group(phase=latest.phase, attempt=latest.number, name=name, places=whole(1, places=count))
                for name, count in places.items()
            ]
            names = [(group.entry, group.pseudonym) for group in groups]
            take_places(transaction, plan, latest, names, places=sum(places.values()))
            return plan

        return self.transactions.run("join", take, alone=True)

    def groups(self, attempt: Attempt) -> list[Group]:
        """Return the groups of an attempt.

        Args:
            attempt: The attempt.
        """
        return [Group.parse(one) for one in self.read(lambda t: t.members(attempt.phase, attempt.number))]

    def unanswered(self, attempt: Attempt) -> list[Group]:
        """Return the groups of an attempt whose answer has not been accepted.

        Args:
            attempt: The attempt, which must not have ended: its end deletes the answers.
        """
        kept = self.read(lambda t: {one.pseudonym for one in t.reports(attempt.phase, attempt.number)})
        return [group for group in self.groups(attempt) if group.pseudonym not in kept]

    def accept_answer(self, group: Group, answer: bytes) -> None:
        """Accept the answer of a group, once. It is durable on return. The call is idempotent.

        Args:
            group: The group, as `groups` returns it.
            answer: The answer of the group. The collector reads it when the attempt is closed.

        Raises:
            Refused: `already-reported` if another answer was accepted; `closed` if the attempt is not
                collecting; `not-joined` if the group has no place in the attempt.
        """
        report = StoredReport(
            phase=group.phase,
            attempt=group.attempt,
            pseudonym=group.pseudonym,
            digest=hashlib.sha256(answer).hexdigest(),
            sealed=answer,
        )
        self.transactions.run("report", lambda t: check_accepted(t.accept([report])[0]), alone=True)
