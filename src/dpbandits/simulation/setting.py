"""A setting of a simulation: everything but the seed. Its defaults are the paper's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbandits.actions import FAMILIES, Actions
from dpbandits.checks import non_negative, one_of, whole
from dpbandits.privacy import PrivacyRequest
from dpbandits.protocol import Schedule, Study
from dpbandits.world import REWARD_LAWS, Instance, Population

ALGORITHMS = ("dpe", "dpe-fixed")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """d = 20, k = 1000, T = 10⁶, σ = .1, α = .8, N = 10⁵ and (ε, δ) = (10, .25), as in the paper.

    Each run draws its own actions and θ* from its seed; `instance_seed` fixes them over the runs, and
    `actions_file` fixes the actions alone.
    """

    algorithm: str = "dpe"
    trust: str = "none"
    preset: str = "tight"
    epsilon: float = 10.0
    delta: float = 0.25
    noise: str | None = None
    minimum_share: float = 1.0
    silent_share: float = 0.0
    actions: int = 1000
    dimension: int = 20
    family: str = "sphere"
    actions_file: str | None = None
    horizon: int = 10**6
    alpha: float = 0.8
    fixed_cohort: int = 97
    maximum_cohort: int | None = None
    heterogeneity: float = 0.1
    bound: float = 1.0
    rewards: str = "gaussian"
    population: int | None = 10**5
    when_clients_run_out: str = "error"
    design_tolerance: float = 1.3
    instance_seed: int | None = None

    def __post_init__(self) -> None:
        one_of(ALGORITHMS, algorithm=self.algorithm)
        one_of(FAMILIES, family=self.family)
        one_of(REWARD_LAWS, rewards=self.rewards)
        non_negative(heterogeneity=self.heterogeneity)
        whole(1, actions=self.actions)
        whole(1, dimension=self.dimension)
        if self.instance_seed is not None:
            whole(0, instance_seed=self.instance_seed)

    def schedule(self) -> Schedule:
        """Growing cohorts, or the fixed one of DPE-FixedU."""
        fixed = self.fixed_cohort if self.algorithm == "dpe-fixed" else None
        return Schedule(alpha=self.alpha, fixed_cohort=fixed, maximum_cohort=self.maximum_cohort)

    def privacy(self) -> PrivacyRequest:
        """What is asked of the Privatizer."""
        return PrivacyRequest(
            trust=self.trust,
            epsilon=self.epsilon,
            delta=self.delta,
            preset=self.preset,
            noise=self.noise,
            minimum_share=self.minimum_share,
            silent_share=self.silent_share,
        )

    def study(self, actions: Actions) -> Study:
        """The study that the learner is given."""
        return Study(
            actions=actions,
            horizon=self.horizon,
            bound=self.bound,
            heterogeneity=self.heterogeneity,
            privacy=self.privacy(),
            schedule=self.schedule(),
            population=self.population,
            when_clients_run_out=self.when_clients_run_out,
            design_tolerance=self.design_tolerance,
        )

    def instance(self, seed: int) -> Instance:
        """The truth of the run with this seed."""
        own = seed if self.instance_seed is None else self.instance_seed
        # The domain word keeps the instance independent of the run's rewards and noise.
        streams = np.random.SeedSequence([own, 0x1257]).spawn(2)
        for_actions, for_theta = (np.random.default_rng(stream) for stream in streams)
        if self.actions_file is not None:
            actions = Actions.load(self.actions_file)
        else:
            actions = Actions.generate(
                self.family, count=self.actions, dimension=self.dimension, rng=for_actions
            )
        return Instance.draw(actions, for_theta)

    def people(self, instance: Instance) -> Population:
        """The population around that truth."""
        return Population(
            instance, heterogeneity=self.heterogeneity, size=self.population, rewards=self.rewards
        )
