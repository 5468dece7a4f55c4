"""`StoredStudy`: reads results and the course of a study from its store, and writes orders to it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpbandits.options import Options
from dpbandits.protocol import Study
from dpbandits.rounds import StoreClock, give_order
from dpbandits.service.config._options_section import options_of
from dpbandits.service.config._party_sections import storage_of
from dpbandits.service.config._sections import study_file
from dpbandits.service.config._study_section import described
from dpbandits.service.coordinator import LEVEL, Beginning, StudyHistory, read_history, stored_results
from dpbandits.service.wire import ResultsReply
from dpbandits.storage import open_store


@dataclass(frozen=True, kw_only=True)
class StoredStudy:
    """A study and its store. Reading results and giving orders needs no key and no token.

    Attributes:
        study: The study, without terms. A schedule that is planned at the first start is not planned here.
        options: Its options; None if its actions have no names.
        storage: The URL of the store.
    """

    study: Study
    options: Options | None
    storage: str

    def results(self, *, level: float = LEVEL) -> ResultsReply:
        """Read the store and return the results, also while a coordinator uses the store.

        Args:
            level: The probability with which each kind of interval covers the truth.

        Returns:
            The same reply as `/v1/results`.

        Raises:
            InvalidValue: There is no store, or it belongs to another study.
            PlanMismatch: A journalled plan differs from the one that this study computes.
        """
        store = open_store(self.storage, read_only=True)
        try:
            return stored_results(self.study, self.options, store, level=level)
        finally:
            store.close()

    def history(self) -> StudyHistory:
        """Read plans, releases, attempts and orders from the store, also while a coordinator uses the store.

        Returns:
            The records and the state.

        Raises:
            InvalidValue: There is no store, or it belongs to another study.
            PlanMismatch: A journalled plan differs from the one that this study computes.
        """
        store = open_store(self.storage, read_only=True)
        try:
            return read_history(self.study, self.options, store)
        finally:
            store.close()

    def order(self, order: str) -> str:
        """Write an order of the operator to the store. A running coordinator obeys within a second.

        Args:
            order: `pause`, `resume` or `close`.

        Returns:
            The new standing: `running`, `paused` or `closed`.

        Raises:
            InvalidValue: The store has no study.
            Refused: The study was closed, which is final.
        """
        store = open_store(self.storage)
        try:
            with store.transaction() as transaction:
                Beginning.read(transaction)
                return give_order(transaction, order, StoreClock(store).now())
        finally:
            store.close()


def read_stored_study(path: Path) -> StoredStudy:
    """Read the parts of a study file that describe the study and its store.

    Args:
        path: The TOML file.

    Returns:
        The study and the URL of its store, which is not opened yet.

    Raises:
        InvalidValue: A section, key or value is missing or not accepted; the error names the line.
    """
    file = study_file(path)
    options = options_of(file)
    study, _ = described(file, options)
    return StoredStudy(study=study, options=options, storage=storage_of(file))
