"""Jobs of experiments that are more than one run of the learner: LinUCB, and fixed cohorts of equal cost."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpbandits.baselines import LinUCBTrace, linucb
from dpbandits.protocol import digest
from dpbandits.simulation import RunTrace, Setting, run_once


@dataclass(frozen=True, kw_only=True)
class _OfSetting:
    """A job that is determined by a setting and by its kind."""

    setting: Setting

    @property
    def name(self) -> str:
        """A fingerprint of the job."""
        return digest(self)


@dataclass(frozen=True, kw_only=True)
class LinUCB(_OfSetting):
    """LinUCB on the instances of a setting, with one new client per round."""

    kind: str = "linucb"
    outcome: ClassVar[type[LinUCBTrace]] = LinUCBTrace

    def run(self, seed: int) -> LinUCBTrace:
        """Run the job with one seed."""
        own, spread = self.setting, self.setting.problem.heterogeneity
        return linucb(own.instance(seed), horizon=own.horizon, heterogeneity=spread, seed=seed)


@dataclass(frozen=True, kw_only=True)
class MatchedFixedCohort(_OfSetting):
    """DPE-FixedU, with the U that gives the communication of DPE on the same instance.

    In the result, U is the cohort of every phase that asks clients.
    """

    kind: str = "matched-fixed-cohort"
    outcome: ClassVar[type[RunTrace]] = RunTrace

    def run(self, seed: int) -> RunTrace:
        """Run DPE to find U, and then DPE-FixedU."""
        cohort = matched_cohort(run_once(self.setting, seed))
        return run_once(self.setting.changed(algorithm="dpe-fixed", fixed_cohort=cohort), seed)


def matched_cohort(trace: RunTrace) -> int:
    """Return U = ⌈Σ |U_l| N_l / Σ N_l⌉ over the phases that report.

    A client of phase l sends N_l numbers.
    """
    reporting = [phase for phase in trace.phases if phase.cohort]
    sent = sum(phase.communication for phase in reporting)
    return math.ceil(sent / sum(phase.communication // phase.cohort for phase in reporting))
