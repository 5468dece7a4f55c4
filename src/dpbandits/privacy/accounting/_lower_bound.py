"""A lower bound on δ(ε) of a product of pairs.

The adversary sees only one whole number, the sum of the coordinates' losses rounded to the grid, and compares
it with a threshold. This is an attack, so its success is a lower bound. Outcomes are merged but no loss is
moved, so the bound is too small by the order of the squared spacing, not of the spacing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpbandits.privacy.accounting._fourier import Composed, GridMass, Spectrum, Window, binned, length, total
from dpbandits.privacy.accounting._upper_bound import UNDERFLOW, some_happen
from dpbandits.privacy.accounting._window import Split
from dpbandits.privacy.accounting._worst_pair import Pair, loss_slack, swap_cost


def lower_delta(pairs: Sequence[Pair], split: Split, epsilon: float, window: Window | None) -> float:
    """Return P(E) − e^ε·Q(E) for the threshold test E, if split[i] coordinates follow pair i.

    If any coordinate has an outcome that is impossible under Q, the test decides for P; this has probability
    zero under Q. Unlisted outcomes never decide for P.
    """
    slack = loss_slack(pairs, split)
    if not slack <= 1:
        return 0.0
    surely = some_happen([min(pair.certain(), 1.0) for pair in pairs], split) * math.exp(-slack)
    gain = 0.0 if window is None else _threshold_gain(pairs, split, epsilon, window, slack)
    shown = surely + (gain if math.isfinite(gain) else 0.0)
    underflow = UNDERFLOW * (1 + math.exp(min(epsilon, 600.0)))
    return max(shown - swap_cost(pairs, split, epsilon) - underflow, 0.0)


def merged(pair: Pair, spacing: float) -> tuple[GridMass, GridMass]:
    """Return the P- and the Q-mass of the outcomes whose loss rounds to each grid point."""
    losses, log_p = pair.finite
    index = np.rint(losses / spacing).astype(np.int64)
    first = int(index.min())
    under_p = binned(index - first, np.exp(log_p), 0)
    under_q = binned(index - first, np.exp(log_p - losses), 0)
    return GridMass(first=first, mass=under_p), GridMass(first=first, mass=under_q)


def _threshold_gain(
    pairs: Sequence[Pair], split: Split, epsilon: float, window: Window, slack: float
) -> float:
    """Return a lower bound on P(E) − e^ε·Q(E), E = {the sum is between a threshold and the window's end}.

    The masses of Q are e^{−loss} times those of P. So a tilt greater by one centres the sum under Q at the
    same place as the sum under P.
    """
    masses = [merged(pair, window.spacing) for pair in pairs]
    raised = replace(window, tilt=window.tilt + 1)
    under_p = Spectrum([under for under, _ in masses], window).compose(split)
    under_q = Spectrum([under for _, under in masses], raised).compose(split)
    losses = (window.first + np.arange(window.length)) * window.spacing
    start = _threshold(under_p, under_q, window, epsilon, 2 * math.sqrt(sum(split)) + 2)
    p_weights = np.exp(under_p.log_scale - window.tilt * losses[start:])
    q_weights = np.exp(under_q.log_scale - raised.tilt * losses[start:] + epsilon)
    # Wrap-around mass is subtracted from P(E), with the weight at the threshold, which is the largest. In
    # Q(E) it may stay, because it only lowers the result.
    p_terms = p_weights * under_p.values[start:]
    p_mass = total(p_terms) - under_p.relative * total(np.abs(p_terms))
    p_mass -= float(p_weights.max(initial=0.0)) * (under_p.above + under_p.below)
    p_mass -= length(p_weights) * under_p.error
    q_terms = q_weights * under_q.values[start:]
    q_mass = total(q_terms) + under_q.relative * total(np.abs(q_terms))
    q_mass += length(q_weights) * under_q.error
    return max(p_mass * math.exp(-slack) - q_mass * math.exp(slack), 0.0)


def _threshold(under_p: Composed, under_q: Composed, window: Window, epsilon: float, steps: float) -> int:
    """Return the index, within `steps` of ε, of the threshold with the largest gain.

    Every index would give a valid bound.
    """
    losses = (window.first + np.arange(window.length)) * window.spacing
    start, stop = np.searchsorted(losses, epsilon + np.array([-steps, steps]) * window.spacing)
    near = losses[start:stop]
    # Each grid point contributes P − e^ε·Q. The best threshold skips the points whose sum is least.
    gains = np.exp(under_p.log_scale - window.tilt * near) * under_p.values[start:stop]
    gains -= np.exp(under_q.log_scale - (window.tilt + 1) * near + epsilon) * under_q.values[start:stop]
    if not len(gains):
        return int(start)
    passed_over = np.concatenate(([0.0], np.cumsum(gains)))
    return int(start) + int(np.argmin(passed_over))
