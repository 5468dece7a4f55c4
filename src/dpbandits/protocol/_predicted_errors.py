"""The errors of predicted estimates: after one phase (`PredictedErrors`), and of all phases (`Pooled`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dpbandits._arrays import FloatArray
from dpbandits.protocol._best_guess import RIGHT, ErrorDraws, Guess, best_guess
from dpbandits.protocol._heavy_tails import drawn_scales


@dataclass(frozen=True, kw_only=True, eq=False)
class PredictedErrors:
    """The errors of the estimate after a predicted phase. Objects are compared by identity.

    Attributes:
        of_plays: P, a factor of the covariance PP' + NN' + common·I of the estimate, for the rewards.
        of_noise: N, the factor for the noise.
        tails: How heavy the tails of the noise are; see `noise_tails`.
        common: The part of the variance that the clients' own parameters add.
        rank: The dimension of the span of the actions of the phase.
        level: The quantile √(2·log(1/β)). A width is this times a deviation.
        widths_form: A matrix W: the width in direction v is level·√(v'Wv). W is the covariance, with a larger
            part for noise that has heavier tails than normal noise.
    """

    of_plays: FloatArray
    of_noise: FloatArray
    tails: str
    common: float
    rank: int
    level: float
    widths_form: FloatArray

    @cached_property
    def without_noise(self) -> FloatArray:
        """The covariance without the part of the noise."""
        full = self.of_plays @ self.of_plays.T + self.common * np.eye(len(self.of_plays))
        return np.asarray(full, dtype=np.float64)

    @cached_property
    def covariance(self) -> FloatArray:
        """C, the covariance of the estimate."""
        return np.asarray(self.without_noise + self.of_noise @ self.of_noise.T, dtype=np.float64)

    @cached_property
    def spectrum(self) -> tuple[FloatArray, FloatArray]:
        """An orthonormal basis of the span, d × rank, and the variance of the estimate along each column."""
        factor = np.hstack([self.of_plays, self.of_noise])
        left, values, _ = np.linalg.svd(factor, full_matrices=False)
        return left[:, : self.rank], values[: self.rank] ** 2 + self.common

    def target_widths(self, targets: FloatArray) -> FloatArray:
        """Return the width of each row of targets."""
        spread = np.einsum("ij,ij->i", targets @ self.widths_form, targets)
        return np.asarray(self.level * np.sqrt(np.maximum(spread, 0)), dtype=np.float64)

    def target_radius(self, targets: FloatArray) -> float:
        """Return √tr K + level·√λ, where K is the covariance of the targets and λ its largest eigenvalue."""
        # If columns have very different scales, as with a kernel, rounding can make eigenvalues negative.
        spectrum = np.maximum(np.linalg.eigvalsh(targets @ self.covariance @ targets.T), 0)
        return float(np.sqrt(spectrum.sum()) + self.level * np.sqrt(spectrum[-1]))

    def widths_between(self, rows: FloatArray, best: FloatArray) -> FloatArray:
        """Return the matrix of the widths of best[i] − rows[j]."""
        images, of_best = rows @ self.widths_form, best @ self.widths_form
        squares = np.einsum("ij,ij->i", images, rows) + np.einsum("ij,ij->i", of_best, best)[:, None]
        return np.asarray(self.level * np.sqrt(np.maximum(squares - 2 * of_best @ rows.T, 0)))


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """The errors of the estimated means of actions, if the estimates of some phases are pooled.

    Attributes:
        known: The errors of each phase.
        rows: The features of the actions, one row per action.
    """

    known: Sequence[PredictedErrors]
    rows: FloatArray

    @cached_property
    def _basis(self) -> FloatArray:
        return self.known[0].spectrum[0]  # the span of the first phase contains the others

    @cached_property
    def _precisions(self) -> list[FloatArray]:
        """For each phase a matrix W: in the basis, the phase adds WW' to the precision."""
        spectra = [one.spectrum for one in self.known]
        return [self._basis.T @ own / np.sqrt(variances) for own, variances in spectra]

    @cached_property
    def _precision(self) -> FloatArray:
        return np.asarray(sum(one @ one.T for one in self._precisions), dtype=np.float64)

    @cached_property
    def normal(self) -> FloatArray:
        """One row y per action: the estimate of its mean has error ⟨y, z⟩, z standard normal."""
        lower = cholesky(self._precision, lower=True)
        return np.asarray(solve_triangular(lower, (self.rows @ self._basis).T, lower=True).T)

    @cached_property
    def _gains(self) -> list[FloatArray]:
        """For each phase the map from the error of its estimate to that of the pooled one, in the basis."""
        return [
            np.asarray(np.linalg.solve(self._precision, part / np.sqrt(one.spectrum[1]) @ one.spectrum[0].T))
            for part, one in zip(self._precisions, self.known, strict=True)
        ]

    def guess(self, gaps: FloatArray, draws: ErrorDraws) -> Guess:
        """Return the distribution of the gap of the best guess, given the gap of each action."""
        if all(one.tails == "normal" for one in self.known):
            return best_guess(gaps, self.normal, draws)
        rng, count = np.random.default_rng(draws.seed), len(draws.picks)
        covariances, weights = np.zeros((count, *self._precision.shape)), np.ones(count)
        for gain, one in zip(self._gains, self.known, strict=True):
            covariances += gain @ one.without_noise @ gain.T
            noise = gain @ one.of_noise
            if one.tails == "normal":
                covariances += noise @ noise.T
                continue
            scales = drawn_scales(one.tails, noise.shape[1], count, rng)
            covariances += (noise * scales.variances[:, None, :]) @ noise.T
            weights *= scales.weights
        errors = self.rows @ self._basis @ np.linalg.cholesky(covariances)
        guess = best_guess(gaps, errors, draws)
        return guess if guess is RIGHT else replace(guess, chances=guess.chances * weights)
