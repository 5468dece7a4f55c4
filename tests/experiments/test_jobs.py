"""Jobs of experiments: fixed cohorts, the participants of Table 2, and names of results."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbandits.experiments._comparison import HORIZON, algorithms
from dpbandits.experiments._figure_2c import overtakes
from dpbandits.experiments._jobs import LinUCB, MatchedFixedCohort, matched_cohort
from dpbandits.experiments._models import PRESETS, shown_delta
from dpbandits.experiments._table_2 import PARTICIPANTS, participants
from dpbandits.simulation import Simulated, run_once

from .helpers import SMALL


def test_the_fixed_cohort_has_dpes_communication_on_dpes_supports() -> None:
    trace = run_once(PRESETS["paper"], 0)
    cohort = matched_cohort(trace)
    reporting = [phase for phase in trace.phases if phase.cohort]
    assert len(reporting) == 18
    assert cohort == math.ceil(
        sum(phase.cohort * phase.actions_played for phase in reporting)
        / sum(phase.actions_played for phase in reporting)
    )
    fixed = MatchedFixedCohort(setting=PRESETS["paper"]).run(0)
    assert {phase.cohort for phase in fixed.phases} <= {cohort, 0}
    assert fixed.seed == 0


def test_jobs_of_different_kinds_never_share_a_name() -> None:
    jobs = [Simulated(setting=SMALL), LinUCB(setting=SMALL), MatchedFixedCohort(setting=SMALL)]
    jobs += [LinUCB(setting=SMALL.changed(horizon=401))]
    assert len({job.name for job in jobs}) == len(jobs)


def test_linucbs_regret_is_read_off_at_any_time() -> None:
    trace = LinUCB(setting=SMALL).run(3)
    assert trace.regret_at([SMALL.horizon])[0] == trace.regret  # type: ignore[arg-type]
    assert trace.regret_at([0])[0] == 0  # type: ignore[arg-type]
    assert trace.communication == trace.participants == SMALL.horizon


@pytest.mark.parametrize("preset", ["tight", "paper"])
def test_table_2_has_the_papers_participants(preset: str) -> None:
    for name, work in algorithms(preset, 1).items():
        if name == "LinUCB":
            continue  # one client per round by construction, and slow
        assert participants(name, work.job.run(0)) == PARTICIPANTS[name]
    assert PARTICIPANTS["LinUCB"] == PARTICIPANTS["PE"] == HORIZON


class _Line:
    """A run whose regret grows by `slope` per round, from `start` on."""

    def __init__(self, start: float, slope: float) -> None:
        self.start, self.slope = start, slope

    def regret_at(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.start + self.slope * times


def test_when_one_overtakes_another() -> None:
    late, early = _Line(100, 1), _Line(0, 2)
    overtaken = overtakes([late], [early], 1000)
    assert overtaken is not None
    assert 100 <= overtaken <= 104
    assert overtakes([early], [late], 1000) is None
    assert overtakes([_Line(0, 1)], [_Line(0, 2)], 1000) == 0


def test_deltas_in_legends() -> None:
    assert shown_delta(0.789, 0.0129) == "0.013 … 0.79"
    assert shown_delta(0.25, 0.25) == "0.25"
    assert shown_delta(1e-60) == "< 1e-12"
