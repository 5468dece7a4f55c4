"""The registries of mechanisms and trust models, which find them by name.

Both contain the built-in entries and those that plugins add. A look-up first searches the names that are
registered in this process. Plugins are loaded only if the name is missing (_plugins.py), so a study without
plugins never searches for them.

    >>> from dpbandits.privacy import TRUST_MODELS
    >>> TRUST_MODELS["local"].noises
    ('gaussian', 'discrete-gaussian', 'laplace', 'k-norm', 'list')

Names from a message or a file are only looked up here. They are never used to import code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeVar

from dpbandits.errors import InvalidValue
from dpbandits.privacy._plugins import load_plugins

if TYPE_CHECKING:
    from dpbandits.privacy._mechanism import Mechanism
    from dpbandits.privacy._trust_model import TrustModel

Value = TypeVar("Value")


class Registry(Mapping[str, Value]):
    """A mapping from names to values. Iteration gives the names that are registered so far.

    Args:
        field: The field that errors name, for example "trust".
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._values: dict[str, Value] = {}
        self._origins: dict[str, str] = {}

    def add(self, name: str, value: Value, *, origin: str) -> None:
        """Register a value under a name.

        Args:
            name: The name.
            value: The value.
            origin: The module that defines the value. A module may register a name again, for example when a
                notebook cell runs twice.

        Raises:
            InvalidValue: If another module has registered the name.
        """
        _load_built_in()
        taken = self._origins.setdefault(name, origin)
        if taken != origin:
            raise InvalidValue(self._field, f"{name} from {origin}", f"a name that {taken} does not use")
        self._values[name] = value

    def remove(self, name: str) -> None:
        """Remove a name. Tests that register a value use this to clean up.

        Args:
            name: The name.
        """
        del self._values[name], self._origins[name]

    def __getitem__(self, name: object) -> Value:
        """Return the value, after loading plugins if the name is missing.

        Raises:
            KeyError: If the name is not registered.
            InvalidValue: If the name is not registered, and a plugin that may define it cannot be loaded.
        """
        if not isinstance(name, str):  # a file or a message can hold a value of any type
            raise KeyError(name)
        if name not in self._values:
            _load_built_in()
        if name not in self._values:
            broken = load_plugins()
            if name not in self._values and broken:
                raise broken[0]
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        _load_built_in()
        return iter(tuple(self._values))

    def __len__(self) -> int:
        _load_built_in()
        return len(self._values)


def _load_built_in() -> None:
    """Import the module that registers the built-in trust models. Python imports it only once."""
    import_module("dpbandits.privacy.trust._built_in")


MECHANISMS: Registry[type[Mechanism]] = Registry("kind")
"""Every mechanism class by its `kind`."""

TRUST_MODELS: Registry[TrustModel] = Registry("trust")
"""Every trust model by its name: none, central, local, shuffle, and those of plugins."""


SomeMechanism = TypeVar("SomeMechanism", bound="type[Mechanism]")


def register(mechanism: SomeMechanism) -> SomeMechanism:
    """Register a mechanism under its `kind`, so that requests can name it and plans can be decoded.

    Args:
        mechanism: The class. Its `trust` is the name of the trust model that it belongs to.

    Returns:
        The same class, so that `@register` works as a decorator.

    Raises:
        InvalidValue: If another module has registered the kind.

    Example:
        >>> from dataclasses import dataclass
        >>> import dpbandits as dp
        >>> from dpbandits.privacy import MECHANISMS
        >>> from dpbandits.privacy.trust import NoPrivacy
        >>> @dp.register
        ... @dataclass(frozen=True, kw_only=True)
        ... class Plain(NoPrivacy):
        ...     kind: str = "plain"
        >>> MECHANISMS["plain"] is Plain
        True
        >>> MECHANISMS.remove("plain")
    """
    MECHANISMS.add(mechanism.kind, mechanism, origin=mechanism.__module__)
    return mechanism
