"""Jobs that are not a single run of one setting."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.baselines import LinUCBTrace, linucb
from dpbandits.protocol import digest
from dpbandits.simulation import RunTrace, Setting, run_once


@dataclass(frozen=True, kw_only=True)
class LinUCB:
    """LinUCB on the instances of a setting, with one new client per round."""

    setting: Setting
    kind: str = "linucb"

    @property
    def name(self) -> str:
        """A fingerprint of the job."""
        return digest(self)

    @property
    def outcome(self) -> type[LinUCBTrace]:
        """The type of a result."""
        return LinUCBTrace

    def run(self, seed: int) -> LinUCBTrace:
        """Run the job with one seed."""
        own = self.setting
        return linucb(
            own.instance(seed), horizon=own.horizon, heterogeneity=own.problem.heterogeneity, seed=seed
        )


@dataclass(frozen=True, kw_only=True)
class MatchedFixedCohort:
    """DPE-FixedU, with the U that gives the communication of DPE on the same instance."""

    setting: Setting
    kind: str = "matched-fixed-cohort"

    @property
    def name(self) -> str:
        """A fingerprint of the job."""
        return digest(self)

    @property
    def outcome(self) -> type[RunTrace]:
        """The type of a result; the cohort of its phases is U."""
        return RunTrace

    def run(self, seed: int) -> RunTrace:
        """Run DPE to find U, and then DPE-FixedU."""
        cohort = matched_cohort(run_once(self.setting, seed))
        fixed = self.setting.changed(algorithm="dpe-fixed", fixed_cohort=cohort)
        return run_once(fixed, seed)


def matched_cohort(trace: RunTrace) -> int:
    """Return U = ⌈Σ |U_l| N_l / Σ N_l⌉ over the phases that report.

    A client of phase l sends N_l numbers.
    """
    reporting = [phase for phase in trace.phases if phase.cohort]
    sent = sum(phase.communication for phase in reporting)
    return math.ceil(sent / sum(phase.communication // phase.cohort for phase in reporting))
