"""`Turns`, a fair queue: each address has one turn per round, however many callers from this address wait.

Example: callers 1, 2 and 3 from address A wait, then caller 4 from B. Round one is 1 and 4, round two is 2,
round three is 3. So a caller from an address with no other callers waits for at most one caller of each other
address.

Every operation takes constant time on average. Memory is proportional to the number of waiting callers.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """A caller that can wait for its turn. `round` belongs to the queue."""

    address: str
    round: int


Caller = TypeVar("Caller", bound=Queued)


class Turns(Generic[Caller]):
    """Callers that wait for their turn."""

    def __init__(self) -> None:
        self._rounds: dict[int, dict[Caller, None]] = {}
        self._addresses: dict[str, tuple[int, int]] = {}  # the number of callers, and their last round
        self._first = 0  # no round before this one has callers
        self._end = 0  # no round from this one on has callers
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, caller: Caller) -> None:
        """Let a caller wait for the next free turn of its address."""
        self._skip_empty()
        count, last = self._addresses.get(caller.address, (0, -1))
        caller.round = max(self._first, last + 1)
        self._addresses[caller.address] = (count + 1, caller.round)
        self._rounds.setdefault(caller.round, {})[caller] = None
        self._end = max(self._end, caller.round + 1)
        self._count += 1

    def remove(self, caller: Caller) -> None:
        """Remove a caller that waits."""
        callers = self._rounds[caller.round]
        del callers[caller]
        if not callers:
            del self._rounds[caller.round]
        count, last = self._addresses.pop(caller.address)
        if count > 1:
            self._addresses[caller.address] = (count - 1, last - 1 if last == caller.round else last)
        self._count -= 1

    def first(self) -> Caller:
        """Return the caller whose turn it is; the queue must not be empty."""
        self._skip_empty()
        return next(iter(self._rounds[self._first]))

    def last(self) -> Caller:
        """Return the newest caller of the last round: its address has the most waiting callers."""
        while self._end - 1 not in self._rounds:
            self._end -= 1
        return next(reversed(self._rounds[self._end - 1]))

    def _skip_empty(self) -> None:
        while self._first < self._end and self._first not in self._rounds:
            self._first += 1
