"""Privacy amplification by shuffling (Feldman, McMillan and Talwar, FOCS 2021, Theorems 3.1 and 3.8).

If n clients apply the same (ε₀, δ₀)-private randomizer, and e^ε₀ ≤ n/(16·log(4/δ')), the shuffled messages
are

    (ε, δ' + (e^ε + 1)(1 + e^(−ε₀)/2)·n·δ₀)-private,
    ε = log(1 + (1 − e^(−ε₀))·(8√(e^ε₀·log(4/δ')/n) + 8e^ε₀/n)),

for one client replaced. The factor in the theorem, (e^ε₀ − 1)/(e^ε₀ + 1), is smaller than this 1 − e^(−ε₀).
All versions of the theorem imply the form used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpbandits._checks import positive, probability, whole
from dpbandits.privacy.accounting import gaussian_noise_ratio

ACCOUNTANT = "amplification by shuffling (Feldman, McMillan and Talwar 2021)"
ALONE = "analytic Gaussian; shuffling adds nothing that is proved"
_HALVINGS = 60


@dataclass(frozen=True, kw_only=True)
class LocalBudget:
    """The (ε, δ) that the randomizer of each client must satisfy.

    Attributes:
        epsilon: The local ε.
        delta: The local δ.
        accountant: The theorem by which this budget suffices.
    """

    epsilon: float
    delta: float
    accountant: str


def largest_local_epsilon(clients: int, delta: float) -> float:
    """Return the largest ε₀ that the theorem covers; it is negative if the theorem covers none."""
    return math.log(clients / (16 * math.log(4 / probability(delta=delta))))


def amplified_epsilon(local_epsilon: float, clients: int, delta: float) -> float:
    """Return ε of the shuffled messages at δ', for an ε₀ that the theorem covers."""
    growth = math.exp(local_epsilon)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / clients) + 8 * growth / clients
    return math.log1p(-math.expm1(-local_epsilon) * spread)


def local_budget(epsilon: float, delta: float, clients: int) -> LocalBudget:
    """Return the weakest randomizer for which `clients` shuffled messages are (ε, δ)-private.

    Half of δ is used as δ'. A randomizer that is (ε, δ)-private by itself remains so after shuffling. If it
    needs less Gaussian noise than the theorem, it is returned instead.
    """
    alone = LocalBudget(epsilon=positive(epsilon=epsilon), delta=probability(delta=delta), accountant=ALONE)
    half, low = delta / 2, 0.0
    high = largest_local_epsilon(whole(1, clients=clients), half)
    if high <= 0:
        return alone
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if amplified_epsilon(middle, clients, half) <= epsilon else (low, middle)
    local_delta = half / ((math.exp(epsilon) + 1) * (1 + math.exp(-low) / 2) * clients)
    shuffled = LocalBudget(epsilon=low, delta=local_delta, accountant=ACCOUNTANT)
    return min(alone, shuffled, key=lambda budget: gaussian_noise_ratio(budget.epsilon, budget.delta))
