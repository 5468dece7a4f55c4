"""The problem of a simulation: its actions, the true parameter θ*, its clients and their rewards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbandits._checks import non_negative, one_of, whole
from dpbandits.actions import FAMILIES, Actions
from dpbandits.errors import InvalidValue
from dpbandits.options import Options
from dpbandits.world import REWARD_LAWS, USERS, Clients, Dataset, Instance, Population

PAPER_POPULATION = 10**5
DECIDED_BY_DATA = ("family", "actions_file", "options", "heterogeneity", "misfit")


@dataclass(frozen=True, kw_only=True)
class Problem:
    """Actions, clients and rewards. The defaults are the paper's.

    The paper has d = 20 features, k = 1000 actions, σ = 0.1 and 10⁵ clients.

    Example: `Problem(actions=50, dimension=5).instance(seed=3)` draws 50 actions and a θ* in R⁵.

    Attributes:
        actions: The number of actions.
        dimension: The number of features of an action.
        family: The distribution that actions are drawn from, as in `Actions.generate`.
        actions_file: A .csv or .npz file of actions. It replaces `actions`, `dimension` and `family`.
        options: The JSON of `Options`, whose rows are the actions. It replaces the same fields and
            `actions_file`.
        data: The name of a real data set (see world/_datasets.py), which provides the actions, θ* and the
            heterogeneity. Each run on a ranking file samples `actions` of its rows.
        users: Which clients of the data set take part.
        heterogeneity: σ, the standard deviation of a client's mean reward around the population's.
        rewards: The distribution of a single reward around its mean.
        misfit: The largest deviation of the mean reward of an action from ⟨θ*, x⟩. The deviations are drawn
            uniformly from [−misfit, misfit], independently for each action.
        population: The number of clients; None for no limit; "usual" for 10⁵, or no limit with algorithm pe.
        instance_seed: Use the actions and θ* of this seed in every run. By default each run draws its own.

    Raises:
        InvalidValue: If a value is not accepted, or if a field is given that the data set determines.
    """

    actions: int = 1000
    dimension: int = 20
    family: str = "sphere"
    actions_file: str | None = None
    options: str | None = None
    data: str | None = None
    users: str = "fitted"
    heterogeneity: float = 0.1
    rewards: str = "gaussian"
    misfit: float = 0.0
    population: int | Literal["usual"] | None = "usual"
    instance_seed: int | None = None

    def __post_init__(self) -> None:
        one_of(FAMILIES, family=self.family)
        one_of(REWARD_LAWS, rewards=self.rewards)
        one_of(USERS, users=self.users)
        if self.population is not None and self.population != "usual":
            whole(1, population=self.population)
        non_negative(heterogeneity=self.heterogeneity)
        non_negative(misfit=self.misfit)
        whole(1, actions=self.actions)
        whole(1, dimension=self.dimension)
        if self.instance_seed is not None:
            whole(0, instance_seed=self.instance_seed)
        if self.data is not None:
            self._check_only_data()

    def _check_only_data(self) -> None:
        """Check that no field is given that the data set determines."""
        for name in DECIDED_BY_DATA:
            default = type(self).__dataclass_fields__[name].default
            if getattr(self, name) != default:
                option = name.replace("_", "-")
                raise InvalidValue(option, getattr(self, name), "none: the data set determines it")

    @property
    def dataset(self) -> Dataset | None:
        """The real data set, or None. It is read once per process."""
        if self.data is None:
            return None
        from dpbandits.world import load  # slow to import: it needs SciPy's sparse matrices

        return load(self.data, self.dimension)

    @property
    def true_heterogeneity(self) -> float:
        """σ of the clients that take part: `heterogeneity`, or the data set's."""
        dataset = self.dataset
        return self.heterogeneity if dataset is None else dataset.heterogeneity(self.users)

    def instance(self, seed: int) -> Instance:
        """Return the actions and the true mean rewards of the run with this seed.

        Args:
            seed: The seed of the run.
        """
        own = seed if self.instance_seed is None else self.instance_seed
        found = self._linear(own)
        return found.bent(self.misfit, np.random.default_rng([own, 0x1258])) if self.misfit else found

    def _linear(self, seed: int) -> Instance:
        """Return the instance of a seed without misfit."""
        # The constant makes the instance independent of the run's rewards and noise, which use the same seed.
        streams = np.random.SeedSequence([seed, 0x1257]).spawn(2)
        for_actions, for_theta = (np.random.default_rng(stream) for stream in streams)
        dataset = self.dataset
        if dataset is not None:
            return dataset.instance(dataset.choose(self.actions, for_actions), self.users)
        if self.options is not None:
            return Instance.draw(Options.from_json(self.options).actions, for_theta)
        if self.actions_file is not None:
            return Instance.draw(Actions.load(self.actions_file), for_theta)
        count, dimension = self.actions, self.dimension
        actions = Actions.generate(self.family, count=count, dimension=dimension, rng=for_actions)
        return Instance.draw(actions, for_theta)

    def people(self, instance: Instance, size: int | None) -> Clients:
        """Return the clients of an instance.

        Args:
            instance: The actions and θ*.
            size: The number of clients; None for no limit.
        """
        dataset = self.dataset
        if dataset is not None:
            return dataset.people(instance, self.users, size=size, rewards=self.rewards)
        return Population(instance, heterogeneity=self.heterogeneity, size=size, rewards=self.rewards)
