"""Confidence widths: the paper's formulas, coverage and tightness."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from dpbandits.design import support_bound
from dpbandits.privacy import Mechanism, PrivacyRequest, calibrate
from dpbandits.protocol import PhaseEvidence, Plan
from dpbandits.protocol._linear_algebra import least_squares
from dpbandits.protocol.assignment._everyone import CohortErrors, paper_width
from dpbandits.world import Instance, Population

from .helpers import small_study


def _mechanism(trust: str, coordinates: int = 60, cohort: int = 16, preset: str = "paper"):
    request = PrivacyRequest(trust=trust, epsilon=10, delta=0.25, preset=preset)
    return calibrate(request, coordinates=coordinates, cohort=cohort, bound=1)


def _errors(plays: np.ndarray, mechanism: Mechanism, clients: int, confidence: float) -> CohortErrors:
    support = tuple(range(len(plays)))
    counts = tuple(plays.astype(int).tolist())
    plan = Plan(study="s", phase=1, support=support, plays=counts, rank=1, mechanism=mechanism)
    study: Any = SimpleNamespace(heterogeneity=0.1, bound_failure=confidence)
    return CohortErrors(study, PhaseEvidence(plan=plan, reports=clients))


@pytest.mark.parametrize(
    ("trust", "width"),
    [
        # (√(2·20/(16·32)) + .1/4)·√(2·ln 10⁹)
        ("none", 1.96039466904223),
        # σ_nc = 2√(2·60·ln 5)/(10·16), S = 80·ln ln 20 + 16 = 103.775, σ_n = 2σ_nc√(S·20) = 15.8281
        ("central", 103.860213563369716),
        # σ_n = 2σ_nl√(S·20/16) = 63.3125
        ("local", 1.96039466904223 + 63.3124772377535 * 6.43789807),
    ],
)
def test_the_width_of_the_paper(trust: str, width: float) -> None:
    found = paper_width(
        rank=20, length=32, mechanism=_mechanism(trust), clients=16, heterogeneity=0.1, confidence=1e-9
    )
    assert found == pytest.approx(width, rel=1e-8)


def test_the_width_of_the_appendix_with_the_logarithm_that_its_proof_needs() -> None:
    # b = 2·60/(10·16) = 0.75 on the mean; 2·60·20·b + 2·20·b·ln 10⁹ = 1800 + 30·20.72...
    request = PrivacyRequest(trust="central", epsilon=10, delta=0, preset="paper")
    mechanism = calibrate(request, coordinates=60, cohort=16, bound=1)
    found = paper_width(
        rank=20, length=32, mechanism=mechanism, clients=16, heterogeneity=0.1, confidence=1e-9
    )
    assert found == pytest.approx(1.96039466904223 + 1800 + 30 * 20.7232658369464, rel=1e-9)


def test_the_support_bound_of_the_paper() -> None:
    assert support_bound(20) == pytest.approx(103.775096029195896, rel=1e-14)


def test_the_tight_width_is_the_formula_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows, directions = rng.normal(size=(9, 4)), rng.normal(size=(25, 4))
    plays = rng.integers(1, 9, size=9).astype(float)
    mechanism = _mechanism("central", coordinates=9, preset="tight")
    estimator = least_squares(rows, plays, rank=4)
    gram = rows.T @ (plays[:, None] * rows)
    linear = np.linalg.inv(gram) @ (rows * plays[:, None]).T
    np.testing.assert_allclose(estimator, linear, atol=1e-12)
    noise = np.diag(1 / (16 * plays) + mechanism.error_deviation(16) ** 2)
    covariance = linear @ noise @ linear.T + 0.1**2 / 16 * np.eye(4)
    variances = np.einsum("ij,jk,ik->i", directions, covariance, directions)
    found = _errors(plays, mechanism, 16, 1e-4).radius(directions @ estimator, directions)
    np.testing.assert_allclose(found, np.sqrt(2 * variances * np.log(1e4)), rtol=1e-10)


@pytest.mark.parametrize("trust", ["none", "central", "local", "shuffle"])
def test_tight_widths_cover_and_are_not_loose(trust: str) -> None:
    """At β = .05 an error exceeds its width with probability at most β; for Gaussian tails, about .007.

    Each of the two checks has a false-alarm rate below 10⁻⁶.
    """
    # With few clients the errors of a list are not nearly normal, so its widths are wider than allowed here.
    noise_name = {"local": "discrete-gaussian"}.get(trust)
    study = small_study(trust, "tight")
    study = replace(study, privacy=replace(study.privacy, noise=noise_name))
    rows = study.actions.matrix[:6]
    instance = Instance(study.actions, [0.3, -0.2, 0.1])
    population = Population(instance, heterogeneity=0.1, rewards="gaussian")
    plays, cohort, rng = np.array([40.0, 60, 30, 50, 20, 30]), 12, np.random.default_rng(5)
    mechanism = calibrate(study.privacy, coordinates=6, cohort=cohort, bound=100)  # nothing is clipped
    estimator = least_squares(rows, plays, rank=3)
    directions = study.actions.matrix
    widths = _errors(plays, mechanism, cohort, 0.05).radius(directions @ estimator, directions)
    from dpbandits.privacy import SimulatedNoise

    noise, trials, misses = SimulatedNoise(rng), 20_000, 0
    for _ in range(trials):
        means = mechanism.simulate(population.averages(cohort, range(6), plays.astype(int), rng), noise)
        misses += bool(((estimator @ means - instance.theta) @ study.actions.matrix[7]) > widths[7])
    assert binomtest(misses, trials, 0.05, alternative="greater").pvalue > 1e-6
    # Φ(−√(2·ln 20)) = .0072. Widths that are 10 % larger would give .0035, which this rejects.
    assert binomtest(misses, trials, 0.0072).pvalue > 1e-6
    assert binomtest(misses, trials, 0.0035).pvalue < 1e-6


def test_estimation_in_a_span_that_is_not_everything() -> None:
    frame = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0]
    rows = np.random.default_rng(1).normal(size=(4, 2)) @ frame.T
    theta = np.arange(5.0)
    estimate = least_squares(rows, np.ones(4), rank=2) @ (rows @ theta)
    np.testing.assert_allclose(estimate, frame @ frame.T @ theta, atol=1e-12)
