"""Published variants of LinUCB with private clients, with which DP-DPE is compared.

    local     each client adds Gaussian noise to its message (Zheng et al., NeurIPS 2020)
    shuffle   the same with less noise, because a client is hidden in a shuffled batch; the policy changes
              only between batches (Chowdhury and Zhou, ICML 2022, the variant by amplification)

Both protect the actions that a client was offered as well as its reward. A client sends the upper half of xx'
and y·x, with N(0, s²) noise on every entry. Actions have ‖x‖ ≤ 1, and clipping enforces |y| ≤ B. With w =
|⟨x, z⟩|, the squared distance between the messages for x and z is at most ‖x‖⁴ + ‖z‖⁴ + B²(‖x‖² + ‖z‖²) +
2B²w − 2w² ≤ 2 + 2B² + 2B²c − 2c², where c = min(1, B²/2) is the worst w. Here, all clients are offered the
same public actions, so only rewards are secret. With protects = "rewards" a client sends only y, with noise
for a distance of 2B, and xx' is known. That is a fair comparison, but not the published form.

Noise is calibrated exactly to the stated (ε, δ), not with the constants of the papers. Let the noise on Σxx'
have operator norm at most γ, the noise on Σy·x have length at most ν, and V = Σxx' + noise + (2γ + λ)·I. The
radius is that of Shariff and Sheffet (NeurIPS 2018):

    R·√(2·log(1/α) + d·log(1 + t/(dρ))) + √(ρ + 2γ) + ν/√ρ,   ρ = γ + λ,   α = 1/T,

where R is the sub-Gaussian norm of a reward, at most B for clipped ones. With protects = "rewards", γ = ν = 0
and R² = B² + s². (Rewards beyond B are clipped, and the radius does not cover the bias of their mean.) A
symmetric matrix with independent N(0, s²) entries has norm above s·(2√d + 2√log(2/β)) with probability at
most β, and a vector of them has length above s·(√d + √(2·log(1/β))) with probability at most β. The noise is
floating-point, so it is for simulations only.
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
    "local": "only the client's own device",
    "shuffle": "the shuffler forwards a batch in random order, and does not collude with the server",
}


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A published private LinUCB.

    Attributes:
        trust: `local` or `shuffle`.
        epsilon: The ε of the guarantee.
        delta: The δ of the guarantee.
        batch: The number of clients that share a policy.
        bound: Rewards are clipped to [−bound, bound].
        protects: `actions and rewards`, as published, or `rewards`.

    Raises:
        InvalidValue: If a value is out of range.

    Example:
        >>> from dpbandits.baselines import Peer
        >>> Peer(trust="shuffle", epsilon=1, delta=1e-6, batch=100).guarantee.trust
        'shuffle'
    """

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
        """The largest ℓ2 distance between the messages of two clients."""
        if self.protects == "rewards":
            return 2 * self.bound
        cosine = min(1.0, self.bound**2 / 2)
        return math.sqrt(2 - 2 * cosine**2 + 2 * self.bound**2 * (1 + cosine))

    @property
    def budget(self) -> LocalBudget:
        """The (ε, δ) that each message satisfies by itself."""
        if TRUST_MODELS[self.trust].shuffler:
            return local_budget(self.epsilon, self.delta, self.batch)
        return LocalBudget(epsilon=self.epsilon, delta=self.delta, accountant="analytic Gaussian")

    @property
    def deviation(self) -> float:
        """The standard deviation s of the noise on each number that a client sends."""
        return gaussian_noise_ratio(self.budget.epsilon, self.budget.delta) * self.sensitivity

    @property
    def event(self) -> GaussianEvent:
        """The privacy event of a single message, before any shuffling."""
        return GaussianEvent(noise_ratio=self.deviation / self.sensitivity)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee. Each client serves once, so batches compose in parallel."""
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
    """One run of a private LinUCB.

    Attributes:
        guarantee: The privacy guarantee of its clients.
        seed: The seed of the run.
        horizon: The number of rounds T.
        times: The rounds at which the regret was recorded.
        cumulative_regret: The regret of the first `times[i]` rounds.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.baselines import Peer, private_linucb
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.3, 0.8])
        >>> clients = dp.Population(instance, heterogeneity=0.1, rewards="bernoulli")
        >>> peer = Peer(trust="local", epsilon=1, delta=1e-6, batch=10)
        >>> trace = private_linucb(clients, peer, horizon=200, seed=1)
        >>> trace.participants
        200
    """

    guarantee: Guarantee


def private_linucb(clients: Clients, peer: Peer, *, horizon: int, seed: int) -> PrivateLinUCBTrace:
    """Run a private LinUCB for the whole horizon, with a new client in each round.

    Args:
        clients: The population.
        peer: The algorithm and its guarantee.
        horizon: The number of rounds.
        seed: The source of all randomness.

    Returns:
        The trace of the run.

    Raises:
        InvalidValue: If an argument is out of range.
        NotEnoughClients: If the population is smaller than the number of rounds.

    Example:
        >>> import dpbandits as dp
        >>> from dpbandits.baselines import Peer, private_linucb
        >>> instance = dp.Instance(dp.Actions([[1, 0], [0, 1]]), theta=[0.3, 0.8])
        >>> clients = dp.Population(instance, heterogeneity=0.1, rewards="bernoulli")
        >>> peer = Peer(trust="local", epsilon=1, delta=1e-6, batch=10)
        >>> trace = private_linucb(clients, peer, horizon=200, seed=1)
        >>> trace.horizon, trace.guarantee.trust
        (200, 'local')
    """
    with threadpool_limits(limits=1):
        played = choices(clients, peer, horizon=horizon, seed=seed)
    times, regret = recorded(clients.instance, played)
    return PrivateLinUCBTrace(
        seed=seed, horizon=horizon, times=times, cumulative_regret=regret, guarantee=peer.guarantee
    )


def choices(
    clients: Clients, peer: Peer, *, horizon: int, seed: int, deviation: float | None = None
) -> IntArray:
    """Return the action of each round; for tests, `deviation` replaces the calibrated noise."""
    whole(1, horizon=horizon)
    # Separate streams: changing the noise does not change the rewards.
    streams = np.random.SeedSequence(whole(0, seed=seed)).spawn(2)
    for_rewards, for_noise = (np.random.default_rng(stream) for stream in streams)
    noise = peer.deviation if deviation is None else deviation
    server = _Server(clients.instance.actions.matrix, peer, noise, horizon)
    played = np.empty(horizon, dtype=np.int64)
    for start in range(0, horizon, peer.batch):
        chosen, size = server.choose(), min(peer.batch, horizon - start)
        played[start : start + size] = chosen
        if size == peer.batch:  # a smaller batch would hide its clients less than calibrated
            rewards = clients.averages(size, [chosen], [1], for_rewards)
            server.learn(chosen, np.clip(rewards, -peer.bound, peer.bound), for_noise)
    return played


class _Server:
    """The state of the server: noisy sums over all clients that reported."""

    def __init__(self, rows: FloatArray, peer: Peer, deviation: float, horizon: int) -> None:
        dimension = rows.shape[1]
        self.rows, self.peer, self.deviation, self.horizon = rows, peer, deviation, horizon
        self.gram, self.total, self.reports = np.zeros((dimension, dimension)), np.zeros(dimension), 0

    def choose(self) -> int:
        """Return the action with the largest upper confidence bound."""
        shift, radius = self._radius()
        inverse = np.linalg.inv(self.gram + shift * np.eye(len(self.total)))
        squares = np.einsum("ij,ij->i", self.rows @ inverse, self.rows)
        return int(np.argmax(self.rows @ (inverse @ self.total) + radius * np.sqrt(np.maximum(squares, 0))))

    def _radius(self) -> tuple[float, float]:
        """Return 2γ + λ, and the radius."""
        dimension, reports, spread = len(self.total), self.reports, self.deviation * math.sqrt(self.reports)
        variance, log_rounds, norm, length = self.peer.bound**2, math.log(self.horizon), 0.0, 0.0
        if self.peer.protects == "rewards":
            variance += self.deviation**2
        else:  # β = α/T, because each of at most T updates may fail
            norm = spread * (2 * math.sqrt(dimension) + 2 * math.sqrt(math.log(2) + 2 * log_rounds))
            length = spread * (math.sqrt(dimension) + math.sqrt(4 * log_rounds))
        least = norm + RIDGE
        growth = dimension * math.log1p(reports / (dimension * least))
        noise = math.sqrt(variance * (2 * log_rounds + growth))
        return 2 * norm + RIDGE, noise + math.sqrt(least + 2 * norm) + length / math.sqrt(least)

    def learn(self, chosen: int, rewards: FloatArray, rng: np.random.Generator) -> None:
        """Add a batch; the sum of the Gaussian noise of n clients is drawn at once."""
        row, size = self.rows[chosen], len(rewards)
        spread = self.deviation * math.sqrt(size)
        self.reports += size
        self.gram += size * np.outer(row, row)
        self.total += rewards.sum() * row
        if self.peer.protects == "rewards":
            self.total += spread * rng.standard_normal() * row
            return
        # A symmetric noise matrix: clients send the upper half, and the server mirrors it.
        upper = np.triu(rng.standard_normal(self.gram.shape))
        self.gram += spread * (upper + np.triu(upper, 1).T)
        self.total += spread * rng.standard_normal(len(row))
