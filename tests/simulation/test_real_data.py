"""On real data the learner finds the best action, or one within its width, if its plan can learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import InvalidValue
from dpbandits.protocol import predict
from dpbandits.simulation import Setting, run_once
from tests.world.files import cellular_text, write

EQUAL: dict[str, Any] = {"horizon": 10**5, "participants": 20_000, "schedule": "equal"}
SIZE = {True: {**EQUAL, "schedule": "budgeted"}, False: EQUAL}  # whether to plan, which takes seconds
TRUSTS = [("none", 1.0), ("central", 1.0), ("shuffle", 1.0), ("local", 10.0)]


def _ends_well(setting: Setting) -> None:
    spending = setting.planned()
    prediction = predict(setting.study(setting.instance(0).actions, spending))
    assert prediction.first_elimination is not None
    for seed in range(2):
        run = run_once(setting, seed, spending)
        assert run.width is not None
        assert run.final_gap <= run.width or run.final_gap == 0
        assert run.regret < 0.5 * setting.horizon * setting.instance(seed).gaps.mean()


@pytest.mark.parametrize(("trust", "epsilon"), TRUSTS)
@pytest.mark.parametrize("users", ["fitted", "resampled"])
def test_on_the_ranking_sample(trust: str, epsilon: float, users: str) -> None:
    problem = {"data": "mslr-sample", "actions": 100, "dimension": 6, "users": users}
    _ends_well(Setting.of(trust=trust, epsilon=epsilon, delta=1e-6, **problem, **SIZE[users == "fitted"]))  # type: ignore[arg-type]


@pytest.mark.parametrize(("trust", "epsilon"), TRUSTS[:3])
@pytest.mark.parametrize("users", ["fitted", "resampled", "measured"])
def test_on_a_table_of_cells(trust: str, epsilon: float, users: str, tmp_path: Path) -> None:
    data = f"cellular:{write(tmp_path / 'cells.csv', cellular_text())}"
    _ends_well(
        Setting.of(
            trust=trust, epsilon=epsilon, delta=1e-6, data=data, users=users, **SIZE[users == "fitted"]
        )
    )  # type: ignore[arg-type]


def test_the_learner_is_told_the_heterogeneity_of_the_data_unless_another_is_assumed() -> None:
    setting = Setting.of(data="mslr-sample", actions=50, dimension=6, schedule="equal")
    assert setting.problem.dataset is not None
    actions = setting.instance(0).actions
    assert setting.study(actions).heterogeneity == setting.problem.dataset.heterogeneity("fitted")
    assumed = setting.changed(assumed_heterogeneity=0.5)
    assert assumed.study(actions).heterogeneity == 0.5


def test_runs_draw_their_actions_and_a_seed_fixes_them() -> None:
    free = Setting.of(data="mslr-sample", actions=50, dimension=6)
    fixed = Setting.of(data="mslr-sample", actions=50, dimension=6, instance_seed=3)
    assert free.instance(1).actions != free.instance(2).actions
    assert fixed.instance(1).actions == fixed.instance(2).actions == free.instance(3).actions
    assert free.instance(1).theta.tolist() == free.instance(2).theta.tolist()


@pytest.mark.parametrize("changes", [{"family": "ball"}, {"actions_file": "x.csv"}, {"heterogeneity": 0.3}])
def test_settings_that_the_data_fix_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValue, match="none: the data set determines it"):
        Setting.of(data="mslr-sample", **changes)  # type: ignore[arg-type]
