"""`REWARD_MODELS`: the accepted values of `Study.model`, and the decorator that adds one."""

from __future__ import annotations

from typing import TypeVar

from dpbandits.errors import InvalidValue
from dpbandits.protocol.model._interface import RewardModel
from dpbandits.protocol.model._linear import Linear

Model = TypeVar("Model", bound=type[RewardModel])

REWARD_MODELS: dict[str, RewardModel] = {Linear.name: Linear()}
"""The registered reward models by name."""


def register_model(model: Model) -> Model:
    """Register a reward model, as a class decorator, so that `Study.model` can name it.

    Args:
        model: A subclass of `RewardModel` with a `name`, whose constructor takes no arguments.

    Returns:
        The class itself.

    Raises:
        InvalidValue: Another model has this name.

    Example:
        >>> from dpbandits.protocol import REWARD_MODELS, register_model
        >>> from dpbandits.protocol.model import Linear
        >>> @register_model
        ... class Own(Linear):
        ...     name = "own"
        >>> del REWARD_MODELS["own"]
    """
    if model.name in REWARD_MODELS and type(REWARD_MODELS[model.name]).__qualname__ != model.__qualname__:
        raise InvalidValue("name", model.name, "a name that no other reward model has")
    REWARD_MODELS[model.name] = model()
    return model
