"""A small part of `benchmarks/design_fuzz.py`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "design_fuzz.py"


@pytest.mark.parametrize("seed", [11, 12])
def test_no_fuzzed_case_breaks_a_promise(seed):
    specification = importlib.util.spec_from_file_location("design_fuzz", _PATH)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert module.fuzz(cases=300, seed=seed) == []
