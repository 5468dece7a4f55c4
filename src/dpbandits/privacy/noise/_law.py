"""The interface of integer noise distributions, and the base class of those with a known cumulant.

Noise is added to encoded values, one row of coordinates at a time. It comes in `shares`: a `NoiseLaw`
describes one share, and the privacy cost of revealing a sum that contains `shares` of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import whole
from dpbandits.privacy import accounting
from dpbandits.privacy._limits import MOST_CLIENTS
from dpbandits.privacy.noise._ranges import checked_scale
from dpbandits.privacy.noise._sources import NoiseSource
from dpbandits.privacy.tails import Spread, chernoff_factor, chernoff_radius, sub_gaussian_factor

_AT_ONCE = 1 << 21  # variables that are drawn at once


@dataclass(frozen=True, kw_only=True)
class NoiseLaw(ABC):
    """The distribution of one share of noise.

    Attributes:
        scale: The scale, between 2⁻¹⁰ and 2⁴⁰ levels.
        shares: The least number of shares in the sum; the privacy cost is stated for this number.

    Raises:
        InvalidValue: If the scale or the number of shares is out of range.
    """

    scale: float
    shares: int = 1

    independent_coordinates: ClassVar[bool] = True
    """Whether the coordinates of a share are independent."""
    tail_shape: ClassVar[str] = "normal"
    """How heavy the tails of one draw are: "normal"; "each" if the noise of each number is Laplace noise;
    "common" if the largest coordinate has a gamma distribution; "ball" if the length has one."""
    law_of_sum: ClassVar[str | None] = None
    """The name of the law of the sum of all shares; None if it is this one."""

    def __post_init__(self) -> None:
        checked_scale(self.scale)
        whole(1, MOST_CLIENTS, shares=self.shares)

    @abstractmethod
    def exceeded(self, coordinates: int, largest: int) -> float:
        """Return an upper bound on the probability that any |coordinate| of a share exceeds `largest`.

        Args:
            coordinates: The number of coordinates of a share.
            largest: The limit.
        """

    @abstractmethod
    def draw(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw one row of noise per share.

        Args:
            rows: The number of shares.
            coordinates: The number of coordinates of a share.
            noise: The noise source.

        Returns:
            An array with `rows` rows and `coordinates` columns.
        """

    def draw_total(self, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw the sum of `rows` shares, directly if the distribution of the sum is known.

        Args:
            rows: The number of shares.
            coordinates: The number of coordinates of a share.
            noise: The noise source.

        Returns:
            An array of `coordinates` sums.
        """
        at_once = max(1, _AT_ONCE // coordinates)
        total = self.draw(min(rows, at_once), coordinates, noise).sum(axis=0)
        for first in range(at_once, rows, at_once):
            total += self.draw(min(at_once, rows - first), coordinates, noise).sum(axis=0)
        return np.asarray(total)

    def draw_totals(self, count: int, rows: int, coordinates: int, noise: NoiseSource) -> IntArray:
        """Draw independent sums of `rows` shares each.

        Args:
            count: The number of sums.
            rows: The number of shares in each.
            coordinates: The number of coordinates of a share.
            noise: The noise source.

        Returns:
            An array with one sum per row.
        """

        def draw(some: int) -> IntArray:
            if self.independent_coordinates:
                return self.draw_total(rows, some * coordinates, noise).reshape(some, coordinates)
            shares = self.draw(some * rows, coordinates, noise)
            return np.asarray(shares.reshape(some, rows, coordinates).sum(axis=1))

        at_once = max(1, _AT_ONCE // (self.draws_of_a_total(rows) * coordinates))
        return np.concatenate(
            [draw(min(at_once, count - first)) for first in range(0, count, at_once)], axis=0
        )

    def draws_of_a_total(self, rows: int) -> int:
        """Return how many variables `draw_total` draws per coordinate, in a simulation.

        Args:
            rows: The number of shares in the sum.
        """
        return rows

    @abstractmethod
    def event(self, coordinates: int, shift: int) -> accounting.Event:
        """Return the privacy event of revealing the sum.

        Args:
            coordinates: The number of coordinates.
            shift: The largest change of one coordinate by one client.
        """

    @abstractmethod
    def variance(self, coordinates: int) -> float:
        """Return an upper bound on the variance of one coordinate of one share.

        Args:
            coordinates: The number of coordinates of a share.
        """

    @abstractmethod
    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return a value that ⟨a, sum of `rows` shares⟩ + G exceeds with probability at most `confidence`.

        Args:
            coefficients: One row a per direction.
            other_variance: The variance proxy of the independent sub-Gaussian variable G, per row.
            confidence: The allowed probability β of exceeding the radius.
            rows: The number of shares in the sum.

        Returns:
            One radius per row of `coefficients`.
        """

    @abstractmethod
    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:
        """Return bounds on `radius`, as multiples of the total standard deviation.

        Args:
            spread: Bounds that hold for all rows of coefficients.
            confidence: The allowed probability β of exceeding the radius.
            rows: The number of shares in the sum.
            coordinates: The number of coordinates of a share.

        Returns:
            The lower and the upper bound.
        """


class CumulantLaw(NoiseLaw):
    """A distribution with a known moment generating function; its tail bound is Chernoff's."""

    @property
    @abstractmethod
    def pole(self) -> float:
        """The upper limit of the arguments for which the cumulant is used."""

    @abstractmethod
    def cumulant(self, argument: FloatArray) -> FloatArray:
        """Return log E exp(argument·Z) for one share Z.

        Args:
            argument: The arguments, between −`pole` and `pole`.
        """

    def radius(
        self, coefficients: FloatArray, other_variance: FloatArray, confidence: float, rows: int
    ) -> FloatArray:
        """Return Chernoff's bound with the exact moment generating function."""
        return chernoff_radius(
            coefficients,
            other_variance,
            confidence,
            cumulant=lambda argument: rows * self.cumulant(argument),
            pole=self.pole,
            error_variance=rows * self.variance(coefficients.shape[1]),
        )

    def factors(self, spread: Spread, confidence: float, rows: int, coordinates: int) -> tuple[float, float]:  # noqa: ARG002
        """Return bounds on the radius, as multiples of the total standard deviation.

        The lower factor is the normal one: no cumulant here is below that of the normal distribution of the
        same variance.
        """
        variance = self.variance(coordinates)
        highest = chernoff_factor(
            confidence,
            cumulant=lambda argument: self.cumulant(argument) / variance,
            pole=self.pole,
            largest=spread.largest,
        )
        return sub_gaussian_factor(confidence), highest
