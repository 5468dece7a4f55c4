"""Runs steps in transactions. By default each step has its own; a service may commit several together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from dpbandits.errors import Refused, StorageError
from dpbandits.storage import Store, Transaction

Result = TypeVar("Result")
Hook = Callable[[str], None]

_TRIES = 5


class Transactions(Protocol):
    """Runs functions in transactions, and returns their results once their writes are durable."""

    def run(self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False) -> Result:
        """Run `work` in a transaction.

        Args:
            name: The name of the step, for fault injection.
            work: Reads and writes. It may run again if another worker changed the same rows.
            alone: Whether the step needs its own transaction.

        Returns:
            The result of `work`.
        """
        ...


class OneByOne:
    """Each step in its own transaction, in the thread of the caller.

    The hook is called with `NAME-before-commit` within the transaction and `NAME-after-commit` after it, so
    that a test can end the process there.
    """

    def __init__(self, store: Store, hook: Hook) -> None:
        self._store = store
        self._hook = hook

    def run(self, name: str, work: Callable[[Transaction], Result], *, alone: bool = False) -> Result:  # noqa: ARG002
        """Run `work` in a transaction; retry if another worker changed the same rows, up to five tries."""
        for _ in range(_TRIES):
            try:
                with self._store.transaction() as transaction:
                    result = work(transaction)
                    self._hook(f"{name}-before-commit")
            except Refused as refusal:
                if refusal.reason != "changed":
                    raise
            else:
                self._hook(f"{name}-after-commit")
                return result
        raise StorageError("storage: other workers keep changing the same rows")
