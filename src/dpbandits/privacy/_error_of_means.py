"""`ErrorOfMeans`: what a mechanism knows about the error of the means that it releases.

Confidence widths are computed from it. Every mechanism defines `error_deviation`. The other methods have
defaults that are correct for a sub-Gaussian error; a mechanism with another error overrides `error_radius`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from dpbandits._arrays import FloatArray
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.tails import (
    Spread,
    SummedErrors,
    squared_norms,
    sub_gaussian_factor,
    sub_gaussian_radius,
)


class ErrorOfMeans(ABC):
    """The error of the released means; `Mechanism` derives from it."""

    @abstractmethod
    def error_deviation(self, reports: int) -> float:
        """Return an upper bound on the standard deviation of the error of each coordinate of the mean.

        Args:
            reports: The number of reports in the release.
        """

    def error_radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, reports: int
    ) -> FloatArray:
        """Return, for each row a, a radius that ⟨a, error⟩ + G exceeds with probability at most `confidence`.

        This default is correct for mechanisms whose error is sub-Gaussian with parameter `error_deviation`.

        Args:
            coefficients: One row a per radius.
            other_variance: The variance proxy of G for each row. G is sub-Gaussian and independent of the
                error of the mechanism.
            confidence: The failure probability of each radius.
            reports: The number of reports in the release.

        Returns:
            One radius per row.
        """
        own = self.error_deviation(reports) ** 2 * squared_norms(coefficients)
        return sub_gaussian_radius(other_variance + own, confidence)

    def noise_draws(self, count: int, reports: int, noise: NoiseSource) -> FloatArray | None:  # noqa: ARG002
        """Return independent draws of the noise that is added to the released means.

        They have the distribution of the noise of a release, and do not depend on data. The error of the
        mechanism is this noise plus an independent error. For any data, that other error is a sum of
        independent bounded variables, and the squares of half their ranges add up to `rounding_proxy` in each
        coordinate.

        Args:
            count: How many draws are wanted. There may be fewer, if drawing them would take long.
            reports: The number of reports in the release.
            noise: The source of randomness, which is independent of the release.

        Returns:
            One draw per row; None if the error is not of this form, as for randomized response.
        """
        return None

    def rounding_proxy(self, reports: int) -> float:  # noqa: ARG002
        """Return the variance proxy of the part of the error that `noise_draws` leaves out.

        Args:
            reports: The number of reports in the release.
        """
        return 0.0

    @property
    def sub_gaussian(self) -> bool:
        """Whether the error of each mean is sub-Gaussian with parameter `error_deviation`."""
        return type(self).error_radius is ErrorOfMeans.error_radius

    def summed_errors(self, reports: int) -> SummedErrors | None:  # noqa: ARG002
        """Return the error of one mean as a sum of independent variables, or None if that is not known.

        It gives tighter radii if several cohorts report one number each.

        Args:
            reports: The number of reports in the release.
        """
        return None

    def radius_factors(self, spread: Spread, confidence: float, reports: int) -> tuple[float, float]:  # noqa: ARG002
        """Return a lower and an upper bound on `error_radius` / √V, for all rows with this spread.

        V is `other_variance` + error_deviation²·‖a‖². For a mechanism that overrides `error_radius` but not
        this method, nothing is known: the bounds are 0 and infinity.

        Args:
            spread: How the coefficients of a row are spread.
            confidence: The failure probability of each radius.
            reports: The number of reports in the release.

        Returns:
            The lower and the upper bound.
        """
        if type(self).error_radius is not ErrorOfMeans.error_radius:
            return 0.0, math.inf
        return (sub_gaussian_factor(confidence),) * 2
