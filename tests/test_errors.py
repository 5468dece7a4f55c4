"""The tree of errors, and errors that are sent back from a worker."""

from __future__ import annotations

import inspect
import pickle

import pytest

from dpbandits import errors
from dpbandits.errors import DpbanditsError, InvalidValue, NotEnoughClients, WorkersLost


def test_the_tree_of_the_docstring_has_every_error() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
    for error in classes:
        assert issubclass(error, DpbanditsError)
        assert error.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize(
    "error", [InvalidValue("epsilon", 0, "> 0"), NotEnoughClients(10, 5), WorkersLost(3, "killed")]
)
def test_errors_survive_pickling(error: DpbanditsError) -> None:
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
