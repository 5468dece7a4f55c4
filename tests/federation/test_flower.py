"""One small study over real Flower processes, with TLS and node authentication.

It runs in an environment of its own, which `make test` creates (.venv-flower). In the usual environment flwr
is not installed, and the test is skipped.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("flwr") is None:
    pytest.skip(
        "flwr is not installed here: `make test` runs this in .venv-flower, if it can be installed",
        allow_module_level=True,
    )

import numpy as np
import psutil

from dpbandits.service.config import read_stored_study

from .deployed import Deployment, Shape
from .reference import alone, members


def test_a_small_study_ends_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "executed"
    hostile = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\napp = None\n"
    monkeypatch.setattr("dpbandits.federation.flower._server._CODE", hostile)
    deployment = Deployment(tmp_path, Shape(trust="shuffle", sites=2, users=30, cohorts=(40,)))
    outcome = deployment.run()
    assert outcome.ended, outcome.told
    assert not mark.exists()  # nobody runs the code that is sent with a run
    [(phase, attempt, release)] = deployment.releases()
    assert (phase, attempt, release.reports) == (1, 1, 40)
    _, _, [expected] = alone(deployment)
    assert np.allclose(release.means, expected.means, rtol=0, atol=1e-9)
    asked = members(deployment, 1, 1)
    assert {site: len(users) for site, users in asked.items()} == {0: 20, 1: 20}
    assert read_stored_study(deployment.path).results().answer is not None
    left = [" ".join(one.cmdline()) for one in psutil.process_iter() if _ours(one, tmp_path)]
    assert left == []


def _ours(process: psutil.Process, folder: Path) -> bool:
    try:
        return str(folder) in " ".join(process.cmdline())
    except psutil.Error:
        return False
