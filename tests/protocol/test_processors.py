"""A plan does not depend on the processor: all parties of a study must compute the same digest.

OpenBLAS chooses its kernels by the processor. Kernels sum in other orders, so results differ in the last
bits. Symmetric actions, such as a table of all combinations, have many exact ties, and a tie that rounding
decides becomes another plan.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dpbandits.design import near_g_optimal
from dpbandits.protocol._clipping import GRID, on_grid
from dpbandits.protocol._reporting import _first_independent, rounded

from .planned_digests import TRUSTS, actions, study

SCRIPT = Path(__file__).with_name("planned_digests.py")
# Kernels of processors without AVX, with AVX2, and with AVX-512 if this machine has it. Kernels that this
# processor cannot run are replaced by ones that it can.
KERNELS = ("Prescott", "Haswell", "SkylakeX")
STUDIES = 40

_openblas = {info["internal_api"] for info in threadpool_info() if info["user_api"] == "blas"} == {"openblas"}


def _printed(kernel: str) -> list[str]:
    environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(SCRIPT), "0", str(STUDIES)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(
    not _openblas or platform.machine() != "x86_64", reason="the kernels can be chosen in OpenBLAS on x86-64"
)
def test_plans_are_the_same_with_the_kernels_of_every_processor() -> None:
    first, *others = [_printed(kernel) for kernel in KERNELS]
    assert len(first) == STUDIES
    assert {study(number).privacy.trust for number in range(STUDIES)} == set(TRUSTS)
    for other in others:
        assert other == first


@pytest.mark.parametrize("number", [1, 3, 4, 5, 6])
def test_rounding_errors_do_not_choose_the_design_of_symmetric_actions(number: int) -> None:
    """Rows with an error in the last bits have the same support and nearly the same weights."""
    rows, rng = actions(number).matrix, np.random.default_rng(number)
    design = near_g_optimal(rows, tolerance=1.3)
    for _ in range(20):
        noise = 1 + rng.choice([-1, 0, 1], size=rows.shape) * np.finfo(float).eps
        other = near_g_optimal(rows * noise, tolerance=1.3)
        assert other.support.tolist() == design.support.tolist()
        assert np.abs(other.weights - design.weights).max() < 1e-10


def test_grids_are_safe_from_rounding_errors() -> None:
    for value in (1.0, 3.5, 1 / GRID):
        above = value * (1 + 4 * np.finfo(float).eps)
        assert on_grid(value, up=True) == on_grid(above, up=True) == value
    assert on_grid(1 + 0.01 / GRID, up=True) == 1 + 1 / GRID
    assert str(on_grid(-1e-12)) == "0.0"
    for size in (1.0, 0.25):
        exact = np.array([[size, 0.3]])
        assert (rounded(exact) == rounded(exact * np.array([[1 + 2e-16, 1.0]]))).all()


def test_the_first_independent_columns_are_taken() -> None:
    rows = np.array([np.concatenate(pair) for pair in ((a, b) for a in np.eye(3) for b in np.eye(3))])
    assert _first_independent(rows, 5).tolist() == [0, 1, 2, 3, 4]
    repeated = np.column_stack([rows[:, :1], rows])
    assert _first_independent(repeated, 5).tolist() == [0, 2, 3, 4, 5]
