"""The loader on a generated table of the same format, and on the real one if its path is given.

    DPBANDITS_CELLULAR_DATA=PATH python -m pytest tests/world/test_cellular.py

The real measurements are under the GPL and do not come with the code.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.world import load
from dpbandits.world._cellular import cellular

from .files import SPLITS, cellular_text, write


@pytest.fixture(name="table", params=["t.csv", "t.csv.gz"])
def _table(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write(tmp_path / request.param, cellular_text())


def test_the_best_configuration_of_a_known_table_is_found(table: Path) -> None:
    data = cellular(table)
    assert data.catalogue.shape == (3 * len(SPLITS), 8)
    assert data.measured is not None
    assert data.measured.shape == (6, 3 * len(SPLITS))
    assert data.measured.min() >= -1
    assert data.measured.max() == 0
    modelled, measured = data.catalogue @ data.theta, data.measured.mean(axis=0)
    assert data.labels[int(np.argmax(measured))] == "round-robin, split 14/1/2"
    assert data.labels[int(np.argmax(modelled))] == "round-robin, split 14/1/2"
    assert data.misfit == pytest.approx(np.abs(measured - modelled).max())
    assert data.misfit < 0.02  # rates are nearly linear in the features
    assert 0.005 < data.noise < 0.02  # repeats scatter by 1 %


def test_a_curve_that_the_features_cannot_follow_is_a_misfit(tmp_path: Path) -> None:
    lines = cellular_text().splitlines()
    index = next(i for i, line in enumerate(lines) if line.startswith("0,") and ",8,3,6," in line)
    bumped = [line.rsplit(",", 2)[0] + ",9.0," if ",8,3,6," in line else line for line in lines]
    assert bumped[index] != lines[index]
    data = cellular(write(tmp_path / "b.csv", "\n".join(bumped)))
    assert data.misfit > 0.05


def test_few_windows_and_foreign_slices_are_left_out(tmp_path: Path) -> None:
    text = cellular_text()
    odd = "0,0,2,1,14,9,0,0,20,99.0,\n0,0,2,1,14,9,0,2,900,99.0,\n"
    plain, more = cellular(write(tmp_path / "a.csv", text)), cellular(write(tmp_path / "b.csv", text + odd))
    np.testing.assert_array_equal(plain.measured, more.measured)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("ue,", "phone,", 1), "without column ue, expected a table with sched, "),
        (lambda text: text.replace(",900,", ",9,"), "with 0 phones, expected at least 2 users"),
        (lambda text: "\n".join(text.splitlines()[:1]), "with 0 phones, expected at least 2 users"),
        (lambda text: "", "without column sched"),
        (
            lambda text: text + "0,0,2,1,14,0,0,0,900,fast,\n",
            r"line \d+, dl_mbps: got 'fast', expected a number",
        ),
        (
            lambda text: text + "0,0,2,1,14,0,0,0,900,-1,\n",
            "dl_mbps: got '-1', expected a finite number >= 0",
        ),
        (lambda text: text + "0,0,2,1,14\n", "ue: got ''"),
        (lambda text: text + "3,0,2,1,14,0,0,0,900,1,\n", "sched: got 3, expected 0, 1 or 2"),
        (lambda text: text + "0,0,0,0,0,0,0,0,900,1,\n", "rbg0 to rbg2"),
        (lambda text: text + "0,0,5,5,7,0,0,0,900,1,\n", "phone 1 without round-robin, split 5/5/7"),
        (
            lambda text: "\n".join(x for x in text.splitlines() if not x.startswith("1,")),
            "expected all three schedulers",
        ),
    ],
)
def test_a_wrong_table_is_refused_in_one_line(tmp_path: Path, change: object, message: str) -> None:
    assert callable(change)
    path = write(tmp_path / "t.csv", change(cellular_text()))
    with pytest.raises(InvalidValue, match=message) as caught:
        cellular(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_folder_with_one_table_will_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="with 0 tables"):
        load(f"cellular:{tmp_path}", 20)
    write(tmp_path / "t.csv.gz", cellular_text())
    assert load(f"cellular:{tmp_path}", 20).name == "t.csv.gz"


REAL = os.environ.get("DPBANDITS_CELLULAR_DATA")


@pytest.mark.skipif(REAL is None, reason="set DPBANDITS_CELLULAR_DATA to the real measurements' path")
def test_the_real_measurements() -> None:
    data = load(f"cellular:{REAL}", 20)
    assert data.catalogue.shape == (84, 8)
    assert data.measured is not None
    assert data.measured.shape == (42, 84)
    modelled, measured = data.catalogue @ data.theta, data.measured.mean(axis=0)
    assert int(np.argmax(modelled)) == int(np.argmax(measured))
    assert data.misfit < 0.015
