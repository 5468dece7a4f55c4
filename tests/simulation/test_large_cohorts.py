"""Cohorts that do not fit into memory are drawn in blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dpbandits.actions import Actions
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.privacy.noise import GaussianLaw, NoiseSource
from dpbandits.protocol import Schedule, Study, ask, simulate_groups

COHORT = 1000


class Numbered:
    """Clients who report their own number, in thousandths."""

    def __init__(self) -> None:
        self.blocks = list[int]()

    def averages(
        self, cohort: int, support: Sequence[int], plays: Sequence[int], rng: np.random.Generator
    ) -> np.ndarray:
        first = sum(self.blocks)
        self.blocks.append(cohort)
        return np.repeat(np.arange(first, first + cohort)[:, None] / COHORT, len(support), axis=1)


@pytest.mark.parametrize(("whole", "blocks"), [(1 << 24, 1), (COHORT, 84)])
def test_every_client_of_a_large_cohort_is_counted_once(
    whole: int, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpbandits.protocol.assignment._everyone._WHOLE", whole)
    monkeypatch.setattr("dpbandits.protocol.assignment._everyone._BLOCK", 36)
    study = Study(
        actions=Actions(np.eye(3)),
        horizon=10**4,
        privacy=PrivacyRequest(trust="none", preset="paper"),
        schedule=Schedule(cohorts=(COHORT,)),
    )
    plan, people, rng = ask(study.begin()), Numbered(), np.random.default_rng(1)
    reported = study.assignment_rule.simulate(plan, people, rng)  # type: ignore[arg-type]
    release, clipped = simulate_groups(plan, reported, SimulatedNoise(rng))
    assert len(people.blocks) == blocks
    assert sum(people.blocks) == release.reports == COHORT
    assert release.means == pytest.approx([np.mean(np.arange(COHORT) / COHORT)] * 3, rel=1e-12)
    assert clipped == 0


class Ones(GaussianLaw):
    """Noise that is always one, and that remembers how many shares were drawn at a time."""

    drawn: list[int] = []  # noqa: RUF012  (for this test only)

    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> np.ndarray:
        self.drawn.append(rows)
        return np.ones((rows, coordinates), dtype=np.int64)


def test_the_noise_of_a_large_cohort_is_drawn_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.privacy.noise._law._AT_ONCE", 64)
    total = Ones(scale=0.5).draw_total(COHORT, 3, SimulatedNoise(np.random.default_rng(1)))
    assert total.tolist() == [COHORT] * 3
    assert max(Ones.drawn) == 21
    assert sum(Ones.drawn) == COHORT
