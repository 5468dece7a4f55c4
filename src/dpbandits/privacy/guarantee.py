"""The statement that every result carries, and the request it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpbandits.checks import one_of, positive, probability
from dpbandits.privacy.mechanism import Mechanism

TRUST_MODELS = ("none", "central", "local", "shuffle")
PRESETS = ("tight", "paper")
NEIGHBOURING = "replace-one"


@dataclass(frozen=True, kw_only=True)
class PrivacyRequest:
    """What the study asks of its Privatizer: a trust model, (ε, δ), and how noise is calibrated."""

    trust: str = "none"
    epsilon: float = 1.0
    delta: float = 1e-6
    preset: str = "tight"

    def __post_init__(self) -> None:
        one_of(TRUST_MODELS, trust=self.trust)
        one_of(PRESETS, preset=self.preset)
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """For one client replaced, the view of whoever `trust` does not trust is (epsilon, delta)-DP."""

    trust: str
    epsilon: float
    delta: float
    neighbouring: str
    accountant: str
    preset: str


def guarantee(request: PrivacyRequest, mechanisms: Iterable[Mechanism]) -> Guarantee | None:
    """What holds for a whole study, given the mechanism of each phase; None without privacy.

    Each client serves in one phase only, so phases compose in parallel: the worst phase counts.
    """
    used = list(mechanisms)
    if request.trust == "none" or not used:
        return None
    return Guarantee(
        trust=request.trust,
        epsilon=request.epsilon,
        delta=max(mechanism.delta(request.epsilon) for mechanism in used),
        neighbouring=NEIGHBOURING,
        accountant=used[0].accountant,
        preset=request.preset,
    )
