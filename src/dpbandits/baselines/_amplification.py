"""Privacy amplification by shuffling (Feldman, McMillan and Talwar, FOCS 2021, Theorems 3.1 and 3.8).

If n clients apply the same (ε₀, δ₀)-private randomizer, and e^ε₀ ≤ n/(16·log(4/δ')), the shuffled messages
are

    (ε, δ' + (e^ε + 1)(1 + e^(−ε₀)/2)·n·δ₀)-private,
    ε = log(1 + (1 − e^(−ε₀))·(8√(e^ε₀·log(4/δ')/n) + 8e^ε₀/n)),

for one client replaced. The theorem's own factor, (e^ε₀ − 1)/(e^ε₀ + 1), is smaller than this 1 − e^(−ε₀),
which is the form that all its versions imply.
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
    """What each client's own randomizer must satisfy, and by which theorem that suffices."""

    epsilon: float
    delta: float
    accountant: str


def largest_local_epsilon(clients: int, delta: float) -> float:
    """Beyond this ε₀ the theorem says nothing; it may be negative, where it never does."""
    return math.log(clients / (16 * math.log(4 / probability(delta=delta))))


def amplified_epsilon(local_epsilon: float, clients: int, delta: float) -> float:
    """ε of the shuffled messages, at δ', for an ε₀ within the theorem."""
    growth = math.exp(local_epsilon)
    spread = 8 * math.sqrt(growth * math.log(4 / delta) / clients) + 8 * growth / clients
    return math.log1p(-math.expm1(-local_epsilon) * spread)


def local_budget(epsilon: float, delta: float, clients: int) -> LocalBudget:
    """The weakest randomizer for which `clients` shuffled messages are (ε, δ)-private.

    Half of δ is δ'. What is (ε, δ)-private by itself is so after shuffling, too; where that takes less
    Gaussian noise than the theorem does, it is the answer.
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
