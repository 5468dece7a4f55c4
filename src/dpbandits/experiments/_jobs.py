"""Jobs that are not one run of one setting."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits.baselines import LinUCBTrace, linucb
from dpbandits.protocol import digest
from dpbandits.simulation import RunTrace, Setting, run_once


@dataclass(frozen=True, kw_only=True)
class LinUCB:
    """LinUCB on the instances of a setting, one new client a round."""

    setting: Setting
    kind: str = "linucb"

    @property
    def name(self) -> str:
        """A fingerprint."""
        return digest(self)

    @property
    def outcome(self) -> type[LinUCBTrace]:
        """A trace."""
        return LinUCBTrace

    def run(self, seed: int) -> LinUCBTrace:
        """One run."""
        own = self.setting
        return linucb(
            own.instance(seed), horizon=own.horizon, heterogeneity=own.problem.heterogeneity, seed=seed
        )


@dataclass(frozen=True, kw_only=True)
class MatchedFixedCohort:
    """DPE-FixedU with the U that gives DPE's communication on the same instance."""

    setting: Setting
    kind: str = "matched-fixed-cohort"

    @property
    def name(self) -> str:
        """A fingerprint."""
        return digest(self)

    @property
    def outcome(self) -> type[RunTrace]:
        """A trace; the cohort of its phases is U."""
        return RunTrace

    def run(self, seed: int) -> RunTrace:
        """DPE first, to know U; then with it."""
        cohort = matched_cohort(run_once(self.setting, seed))
        fixed = self.setting.changed(algorithm="dpe-fixed", fixed_cohort=cohort)
        return run_once(fixed, seed)


def matched_cohort(trace: RunTrace) -> int:
    """U = ⌈Σ |U_l| N_l / Σ N_l⌉ over the phases that report; a client of phase l sends N_l numbers."""
    reporting = [phase for phase in trace.phases if phase.cohort]
    sent = sum(phase.communication for phase in reporting)
    return math.ceil(sent / sum(phase.communication // phase.cohort for phase in reporting))
