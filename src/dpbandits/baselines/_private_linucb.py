"""LinUCB with private clients, as others have published it: the peers that DP-DPE is compared with.

    local     each client adds Gaussian noise to what it sends (Zheng et al., NeurIPS 2020)
    shuffle   the same, with less noise where being shuffled among a batch hides a client; the policy changes
              between batches only (Chowdhury and Zhou, ICML 2022, the variant by amplification)

Both protect what a client was offered as well as its reward: it sends the upper half of xx' and y·x, with
N(0, s²) on every entry. For ‖x‖ ≤ 1 and |y| ≤ B, which is enforced by clipping, and w = |⟨x, z⟩|, the squared
distance of two messages is at most ‖x‖⁴ + ‖z‖⁴ + B²(‖x‖² + ‖z‖²) + 2B²w − 2w² ≤ 2 + 2B² + 2B²c − 2c², where
c = min(1, B²/2) is the worst w. Here all clients are offered the same public actions, so only rewards are
secret. With protects = "rewards" a client sends y alone, with noise for a distance of 2B, and xx' is known:
that is fair to the peers, but not their published form.

Noise is calibrated for the stated (ε, δ) exactly, and not by the papers' constants. With noise of operator
norm γ at most on Σxx' and of length ν at most on Σy·x, and V = Σxx' + noise + (2γ + λ)·I, the radius is that
of Shariff and Sheffet (NeurIPS 2018):

    R·√(2·log(1/α) + d·log(1 + t/(dρ))) + √(ρ + 2γ) + ν/√ρ,   ρ = γ + λ,   α = 1/T,

with R the sub-Gaussian norm of a reward, at most B for clipped ones. (Rewards beyond B are cut, and what
that does to their mean is not in the radius.) A symmetric matrix with independent N(0, s²) entries has norm
above s·(2√d + 2√log(2/β)) with probability at most β, and a vector of them length above s·(√d +
√(2·log(1/β))). Noise is in floating point: for simulations only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from dpbandits._arrays import FloatArray, IntArray
from dpbandits._checks import one_of, positive, probability, whole
from dpbandits.baselines._amplification import LocalBudget, local_budget
from dpbandits.baselines._linucb import RIDGE, LinUCBTrace, recorded
from dpbandits.privacy import NEIGHBOURING, TRUST_MODELS, Guarantee
from dpbandits.privacy.accounting import GaussianEvent, gaussian_noise_ratio
from dpbandits.world import Clients

PEERS = ("local", "shuffle")
PROTECTED = ("actions and rewards", "rewards")
_NEEDS = {
    "local": "nothing but the client's own device",
    "shuffle": "the shuffler forwards a batch in random order, and does not collude with the server",
}


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A published private LinUCB: whom its clients trust, what is asked, and how many share a policy."""

    trust: str
    epsilon: float
    delta: float
    batch: int = 1
    bound: float = 1.0
    protects: str = PROTECTED[0]

    def __post_init__(self) -> None:
        one_of(PEERS, trust=self.trust)
        one_of(PROTECTED, protects=self.protects)
        positive(epsilon=self.epsilon)
        probability(delta=self.delta)
        positive(bound=self.bound)
        whole(1, batch=self.batch)

    @property
    def sensitivity(self) -> float:
        """The largest ℓ2 distance of two clients' messages."""
        if self.protects == "rewards":
            return 2 * self.bound
        cosine = min(1.0, self.bound**2 / 2)
        return math.sqrt(2 - 2 * cosine**2 + 2 * self.bound**2 * (1 + cosine))

    @property
    def budget(self) -> LocalBudget:
        """What each message satisfies by itself."""
        if TRUST_MODELS[self.trust].shuffler:
            return local_budget(self.epsilon, self.delta, self.batch)
        return LocalBudget(epsilon=self.epsilon, delta=self.delta, accountant="analytic Gaussian")

    @property
    def deviation(self) -> float:
        """s, of the noise on each number that a client sends."""
        return gaussian_noise_ratio(self.budget.epsilon, self.budget.delta) * self.sensitivity

    @property
    def event(self) -> GaussianEvent:
        """What a single message reveals, before any shuffling."""
        return GaussianEvent(noise_ratio=self.deviation / self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee that it really has; each client serves once, so batches compose in parallel."""
        return Guarantee(
            trust=self.trust,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbouring=NEIGHBOURING,
            accountant=self.budget.accountant,
            preset="tight",
            noise="gaussian",
            needs=f"{_NEEDS[self.trust]}; protects {self.protects}",
        )


@dataclass(frozen=True, kw_only=True)
class PrivateLinUCBTrace(LinUCBTrace):
    """One run, and what protects its clients."""

    guarantee: Guarantee


def private_linucb(clients: Clients, peer: Peer, *, horizon: int, seed: int) -> PrivateLinUCBTrace:
    """Play the whole horizon, a new client each round; all randomness comes from `seed`."""
    with threadpool_limits(limits=1):
        played = choices(clients, peer, horizon=horizon, seed=seed)
    times, regret = recorded(clients.instance, played)
    return PrivateLinUCBTrace(
        seed=seed, horizon=horizon, times=times, cumulative_regret=regret, guarantee=peer.guarantee
    )


def choices(
    clients: Clients, peer: Peer, *, horizon: int, seed: int, deviation: float | None = None
) -> IntArray:
    """The action of each round; `deviation` replaces the noise that the guarantee needs, for tests."""
    whole(1, horizon=horizon)
    streams = np.random.SeedSequence(whole(0, seed=seed)).spawn(2)
    for_rewards, for_noise = (np.random.default_rng(stream) for stream in streams)
    noise = peer.deviation if deviation is None else deviation
    server = _Server(clients.instance.actions.matrix, peer, noise, horizon)
    played = np.empty(horizon, dtype=np.int64)
    for start in range(0, horizon, peer.batch):
        chosen, size = server.choose(), min(peer.batch, horizon - start)
        played[start : start + size] = chosen
        if size == peer.batch:  # fewer would be hidden less than the noise was calibrated for
            rewards = clients.averages(size, [chosen], [1], for_rewards)
            server.learn(chosen, np.clip(rewards, -peer.bound, peer.bound), for_noise)
    return played


class _Server:
    """What the server knows: noisy sums over all clients that reported."""

    def __init__(self, rows: FloatArray, peer: Peer, deviation: float, horizon: int) -> None:
        dimension = rows.shape[1]
        self.rows, self.peer, self.deviation, self.horizon = rows, peer, deviation, horizon
        self.gram, self.total, self.reports = np.zeros((dimension, dimension)), np.zeros(dimension), 0

    def choose(self) -> int:
        """The action of the largest upper confidence bound."""
        shift, radius = self._radius()
        inverse = np.linalg.inv(self.gram + shift * np.eye(len(self.total)))
        squares = np.einsum("ij,ij->i", self.rows @ inverse, self.rows)
        return int(np.argmax(self.rows @ (inverse @ self.total) + radius * np.sqrt(np.maximum(squares, 0))))

    def _radius(self) -> tuple[float, float]:
        """2γ + λ, and the radius."""
        dimension, reports, spread = len(self.total), self.reports, self.deviation * math.sqrt(self.reports)
        variance, log_rounds, norm, length = self.peer.bound**2, math.log(self.horizon), 0.0, 0.0
        if self.peer.protects == "rewards":
            variance += self.deviation**2
        else:  # β = α/T: each of at most T updates may fail
            norm = spread * (2 * math.sqrt(dimension) + 2 * math.sqrt(math.log(2) + 2 * log_rounds))
            length = spread * (math.sqrt(dimension) + math.sqrt(4 * log_rounds))
        least = norm + RIDGE
        growth = dimension * math.log1p(reports / (dimension * least))
        noise = math.sqrt(variance * (2 * log_rounds + growth))
        return 2 * norm + RIDGE, noise + math.sqrt(least + 2 * norm) + length / math.sqrt(least)

    def learn(self, chosen: int, rewards: FloatArray, rng: np.random.Generator) -> None:
        """Add a batch. The sum of n clients' Gaussian noise is drawn at once."""
        row, size = self.rows[chosen], len(rewards)
        spread = self.deviation * math.sqrt(size)
        self.reports += size
        self.gram += size * np.outer(row, row)
        self.total += rewards.sum() * row
        if self.peer.protects == "rewards":
            self.total += spread * rng.standard_normal() * row
            return
        upper = np.triu(rng.standard_normal(self.gram.shape))
        self.gram += spread * (upper + np.triu(upper, 1).T)
        self.total += spread * rng.standard_normal(len(row))
