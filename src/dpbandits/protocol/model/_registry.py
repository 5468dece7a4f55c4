"""`REWARD_MODELS`: the reward models by name, built-in ones and those of plugins, and how to add one."""

from __future__ import annotations

from typing import TypeVar

from dpbandits.privacy import Registry
from dpbandits.protocol.model._interface import RewardModel
from dpbandits.protocol.model._linear import Linear

Model = TypeVar("Model", bound=type[RewardModel])

REWARD_MODELS: Registry[RewardModel] = Registry("model")
"""The reward models that `Study.model` can name."""


def register_model(model: Model) -> Model:
    """Register a reward model, as a class decorator, so that `Study.model` can name it.

    Args:
        model: A subclass of `RewardModel` with a `name`, whose constructor takes no arguments.

    Returns:
        The class itself.

    Raises:
        InvalidValue: Another module has registered the name.

    Example:
        >>> from dpbandits.protocol import REWARD_MODELS, register_model
        >>> from dpbandits.protocol.model import Linear
        >>> @register_model
        ... class Own(Linear):
        ...     name = "own"
        >>> REWARD_MODELS.remove("own")
    """
    REWARD_MODELS.add(model.name, model(), origin=model.__module__)
    return model


register_model(Linear)
