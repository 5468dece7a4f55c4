"""`plausible`: checks, from its means alone, whether honest clients could have produced a release.

The mean of clipped reports lies in [−bound, bound], or in the ball of that radius, and the mechanism adds an
error that rarely exceeds its `error_radius`. A mean farther out was moved by clients that lied, or by a
fault. Lying clients may also have moved a release that passes, but less: `Mechanism.reach_of_one` is the
largest effect of one client.
"""

from __future__ import annotations

import math

import numpy as np

from dpbandits._arrays import FloatArray
from dpbandits.errors import PlanMismatch
from dpbandits.privacy import Mechanism
from dpbandits.privacy.tails import sub_gaussian_factor
from dpbandits.privacy.trust import CentralLattice
from dpbandits.protocol._messages import Plan, Release

FALSE_ALARM = 1e-9
"""An upper bound on the probability that the check rejects one mean of an honest cohort."""
_ROUNDING = 1e-9


def plausible(plan: Plan, release: Release) -> bool:
    """Return whether every mean of the release, minus its offset, lies where means of honest clients lie.

    For honest clients the result is False with a probability of at most 10⁻⁹ per number, plus 10⁻⁹ if clients
    clip to a ball.

    Args:
        plan: The plan of the phase.
        release: The release of that plan.

    Returns:
        False if the release shows that clients lied or that something failed.

    Raises:
        PlanMismatch: The release belongs to another plan, or has another number of means.

    Example:
        >>> from dpbandits import examples
        >>> from dpbandits.protocol import plausible
        >>> plan = examples.plan()
        >>> plausible(plan, examples.release(plan))
        True
    """
    if release.plan != plan.digest or len(release.means) != plan.numbers:
        raise PlanMismatch(f"the release belongs to another plan than {plan.digest[:12]}")
    means = np.array(release.means) - plan.centre
    # There is one mechanism for all means, or one mechanism per mean.
    parts = means[:, None] if plan.per_action else means[None]
    return all(map(_within, plan.mechanisms, parts, plan.counts(release)))


def _within(mechanism: Mechanism, means: FloatArray, reports: int) -> bool:
    most = mechanism.bound * (1 + _ROUNDING)
    directions = np.eye(mechanism.coordinates)
    radii = mechanism.error_radius(directions, np.zeros(len(means)), FALSE_ALARM / 2, reports)  # two sides
    if not (np.abs(means) <= most + radii * (1 + _ROUNDING)).all():
        return False
    if mechanism.shape == "box":
        return True
    return float(np.linalg.norm(means)) <= most + _longest_error(mechanism, reports) * (1 + _ROUNDING)


def _longest_error(mechanism: Mechanism, reports: int) -> float:
    """Return a length that the error in a ball exceeds with probability at most `FALSE_ALARM`."""
    s, longest, chance = mechanism.coordinates, 0.0, FALSE_ALARM
    deviation = mechanism.error_deviation(reports)
    if isinstance(mechanism, CentralLattice) and mechanism.noise == "ball-norm":
        # The length of the noise is a gamma variable of shape s. With probability 1 − e^(−L) it is at most
        # s + √(2sL) + L. The rest is rounding, of averages and of noise: half of the chance for each.
        chance, unit = FALSE_ALARM / 2, mechanism.lattice.step / reports
        level = math.log(1 / chance)
        longest = mechanism.scale * unit * (s + math.sqrt(2 * s * level) + level)
        deviation = math.sqrt(mechanism.rounding_proxy(reports) + unit**2 / 4)
    # This part is a sub-Gaussian vector with proxy deviation²: docs/accounting-proofs.md, section 13.
    return longest + deviation * (math.sqrt(s) + sub_gaussian_factor(chance))
