"""The tutorial notebook runs, its stored outputs are real, and the privatizer that it adds is private.

False-alarm rate of each statistical check: 10⁻⁶; each also rejects a planted error.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient
from scipy.stats import norm

from dpbandits.errors import InvalidValue, NotAvailable
from dpbandits.privacy import MECHANISMS, PrivacyRequest, SimulatedNoise, calibrate, typical_deviation

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOK = EXAMPLES / "new_privatizer.ipynb"


@pytest.fixture(name="one_bit")
def _one_bit(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(EXAMPLES)
    yield importlib.import_module("one_bit")
    MECHANISMS.remove("one-bit")
    del sys.modules["one_bit"]


def _texts(notebook: Any) -> list[str]:
    return [
        "".join(out["text"] for out in cell.outputs) for cell in notebook.cells if cell.cell_type == "code"
    ]


def test_the_notebook_runs_and_its_stored_outputs_are_real() -> None:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    fresh = nbformat.read(NOTEBOOK, as_version=4)
    for cell in fresh.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(
        fresh,
        coalesce_streams=True,
        timeout=120,
        kernel_name="python3",
        resources={"metadata": {"path": str(EXAMPLES)}},
    ).execute()
    *before, compared = _texts(stored)
    *again, measured = _texts(fresh)
    assert before == again
    assert "OneBit: not refuted\nCareless: refuted" in before[-1]
    # Regrets may differ in rounding from machine to machine; what the notebook says of them may not.
    for table in (compared, measured):
        rows = {
            line.split()[0]: [float(c.replace(",", "")) for c in line.split()[1:]]
            for line in table.splitlines()[1:]
        }
        assert all(rows[epsilon][1] < rows[epsilon][0] for epsilon in ("0.5", "1.0", "2.0"))


def test_the_notebook_shows_the_file_that_it_uses() -> None:
    shown = _texts(nbformat.read(NOTEBOOK, as_version=4))[0]
    assert shown == (EXAMPLES / "one_bit.py").read_text(encoding="utf-8") + "\n"


def test_errors_are_unbiased_and_as_large_as_stated(one_bit: ModuleType) -> None:
    mechanism = one_bit.OneBit(coordinates=4, cohort=300, bound=0.5, epsilon=1.3)
    noise, averages = (
        SimulatedNoise(np.random.default_rng(0)),
        np.zeros((300, 4)),
    )  # zero: the largest variance
    released = np.array([mechanism.simulate(averages, noise) for _ in range(4_000)])
    deviation = mechanism.error_deviation(300)
    limit = norm.isf(1e-6 / 4)
    assert abs(released.mean()) < limit * deviation / math.sqrt(released.size)
    spread = np.mean(released**2) / deviation**2
    assert abs(spread - 1) < limit * math.sqrt(2 / released.size)
    assert not abs(1.1 * spread - 1) < limit * math.sqrt(2 / released.size)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_chances_stay_within_the_limits_of_the_proof(one_bit: ModuleType, epsilon: float) -> None:
    mechanism = one_bit.OneBit(coordinates=1, cohort=1, bound=1.0, epsilon=epsilon)
    high = 0.5 + 1 / (2 * mechanism.stretch)
    assert high / (1 - high) <= math.exp(epsilon)
    assert high / (1 - high) > math.exp(epsilon * (1 - 1e-9))


def test_the_radius_is_exceeded_no_more_often_than_stated(one_bit: ModuleType) -> None:
    mechanism = one_bit.OneBit(coordinates=5, cohort=400, bound=1.0, epsilon=1.0)
    rng = np.random.default_rng(3)
    noise, row = SimulatedNoise(rng), np.array([[1.0, -0.5, 0, 0.2, 0]])
    radius = mechanism.error_radius(row, np.array([0.01]), 0.05, 400)[0]
    averages = rng.uniform(-1, 1, size=(400, 5))
    errors = np.array(
        [(mechanism.simulate(averages, noise) - averages.mean(axis=0)) @ row[0] for _ in range(3_000)]
    )
    errors += 0.1 * rng.standard_normal(3_000)
    assert np.mean(errors > radius) <= 0.05
    assert np.mean(errors > radius / 4) > 0.05


def test_it_is_asked_for_by_name(one_bit: ModuleType) -> None:
    request = PrivacyRequest(trust="local", epsilon=2, delta=0, noise="one-bit")
    mechanism = calibrate(request, coordinates=6, cohort=50, bound=0.7)
    assert mechanism == one_bit.OneBit(coordinates=6, cohort=50, bound=0.7, epsilon=2)
    assert typical_deviation(request, coordinates=6, clients=50, bound=0.7) == mechanism.error_deviation(50)
    with pytest.raises(InvalidValue, match="noise: got 'one-bit'"):
        PrivacyRequest(trust="central", noise="one-bit")
    one_bit.OneBit.pure = False
    with pytest.raises(NotAvailable, match="one-bit with delta 0"):
        PrivacyRequest(trust="local", delta=0, noise="one-bit")


def test_what_is_not_registered_or_not_calibrated_cannot_be_asked_for() -> None:
    for kind in ("one-bit", "local-lattice"):
        with pytest.raises(InvalidValue, match=f"noise: got '{kind}'"):
            PrivacyRequest(trust="local", noise=kind)
    with pytest.raises(NotAvailable, match="cannot be requested by name"):
        MECHANISMS["none"].calibrated(None, coordinates=1, cohort=1, bound=1, least=1)
