"""An upper bound on δ(ε) of a product of pairs of distributions.

The loss of each outcome is split between the two neighbouring grid losses so that both its P- and its Q-mass
are kept ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). The result dominates the
pair.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpbandits.privacy.accounting._fourier import Composed, GridMass, Spectrum, Window, binned, length, total
from dpbandits.privacy.accounting._window import Split
from dpbandits.privacy.accounting._worst_pair import Pair, loss_slack, swap_cost

# An upper bound on the total of all masses that underflow, for any number of outcomes.
UNDERFLOW = 1e-290
# exp does not overflow for exponents up to this one.
LARGEST_EXPONENT = 600.0


def connected(pair: Pair, spacing: float) -> GridMass:
    """Split the mass of each outcome between the two neighbouring grid losses, keeping P- and Q-mass.

    An outcome (p, q) of loss kh + r, 0 ≤ r < h, puts p·(1 − e^{−r})/(1 − e^{−h}) at (k+1)h and the rest at
    kh.
    """
    losses, log_mass = pair.finite
    mass = np.exp(log_mass)
    floor = np.floor(losses / spacing)
    rest = np.clip(losses - floor * spacing, 0.0, spacing)
    upper = mass * (np.expm1(-rest) / math.expm1(-spacing))
    index = (floor - floor.min()).astype(np.int64)
    size = int(index.max()) + 2
    grid = binned(index, mass - upper, size)
    grid += binned(index + 1, upper, size)
    return GridMass(first=int(floor.min()), mass=grid)


def upper_deltas(
    pairs: Sequence[Pair], splits: Sequence[Split], epsilon: float, window: Window | None
) -> list[float]:
    """Return an upper bound on δ(ε) per split; a split states how many coordinates follow each pair."""
    if window is None:
        return [1.0] * len(splits)
    spectrum = Spectrum([connected(pair, window.spacing) for pair in pairs], window)
    return [_upper_delta(spectrum, pairs, split, epsilon, window) for split in splits]


def _upper_delta(
    spectrum: Spectrum, pairs: Sequence[Pair], split: Split, epsilon: float, window: Window
) -> float:
    """Return the probability of an infinite loss plus the contribution of the finite losses.

    The computed logarithms of P and Q have a total error of at most `slack`. So P is off by at most a factor
    e^{slack}, and a loss by at most 2·slack.
    """
    slack = loss_slack(pairs, split)
    # Also catches NaN. With a larger error the bound would be useless.
    if not slack <= 1:
        return 1.0
    infinite = [pair.certain() * math.exp(2 * pair.error) + pair.missing for pair in pairs]
    infinite_loss = some_happen(infinite, split)
    finite = _finite_part(spectrum.compose(split), window, epsilon - 2 * slack)
    delta = finite * math.exp(slack) + infinite_loss + swap_cost(pairs, split, epsilon)
    return min(delta * (1 + 1e-12) + UNDERFLOW, 1.0)


def some_happen(chances: Sequence[float], split: Split) -> float:
    """Return the probability that at least one event happens: 1 − Π(1 − chance)^count."""
    drawn = [(chance, count) for chance, count in zip(chances, split, strict=True) if count]
    if any(chance >= 1 for chance, _ in drawn):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-chance) for chance, count in drawn))


def _finite_part(sum_: Composed, window: Window, epsilon: float) -> float:
    """Return an upper bound on E[(1 − e^{ε−L})₊] over the finite losses L of the composed grid.

    Wrap-around only adds mass inside the window. Mass above the window contributes at most e^{log_scale −
    tilt·top}·above.
    """
    losses = (window.first + np.arange(window.length)) * window.spacing
    # Only losses above ε contribute to (1 − e^{ε−L})₊.
    start = int(np.searchsorted(losses, epsilon, side="right"))
    losses, values = losses[start:], sum_.values[start:]
    if len(losses) and not sum_.log_scale - window.tilt * losses[0] <= LARGEST_EXPONENT:
        return 1.0  # the tilt is wrong for this split and would magnify rounding errors
    weights = np.exp(sum_.log_scale - window.tilt * losses) * -np.expm1(epsilon - losses)
    top = (window.first + window.length) * window.spacing
    beyond = min(math.exp(min(sum_.log_scale - window.tilt * top, 700.0)) * sum_.above, 1.0)
    rounding = length(weights) * sum_.error
    rounding += sum_.relative * total(weights * np.abs(values))
    return total(weights * values) + rounding + beyond
