"""Mechanisms and trust models by name: the built-in ones and those that installed packages add.

A look-up first finds what is registered in this process. Only a name that is missing makes the process load
plugins (_plugins.py), so a study without plugins never searches for them.

    >>> TRUST_MODELS["local"].noises
    ('gaussian', 'discrete-gaussian', 'laplace', 'k-norm')

Names that come from a message or a file are only ever looked up here. They are never imported.
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
    """A mapping from names to values. Iteration gives the names that are registered so far."""

    def __init__(self, field: str) -> None:
        self._field = field
        self._values: dict[str, Value] = {}
        self._origins: dict[str, str] = {}

    def add(self, name: str, value: Value, *, origin: str) -> None:
        """Register a value under a name.

        Args:
            name: The name for look-ups.
            value: The value.
            origin: The module that defines it. A module may register a name again, for example when a
                notebook cell runs twice.

        Raises:
            InvalidValue: Another module has registered the name.
        """
        _load_built_in()
        taken = self._origins.setdefault(name, origin)
        if taken != origin:
            raise InvalidValue(self._field, f"{name} from {origin}", f"a name that {taken} does not use")
        self._values[name] = value

    def remove(self, name: str) -> None:
        """Forget a name. Tests that register something call this afterwards."""
        del self._values[name], self._origins[name]

    def __getitem__(self, name: object) -> Value:
        """Return the value, after loading plugins if the name is missing.

        Raises:
            KeyError: Nothing has this name.
            InvalidValue: Nothing has this name, and a plugin that may define it fails to load.
        """
        _load_built_in()
        if not isinstance(name, str):  # files and messages hold values of any type
            raise KeyError(name)
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
    """Import the module that registers the built-in trust models. It is imported once."""
    import_module("dpbandits.privacy.trust._built_in")


MECHANISMS: Registry[type[Mechanism]] = Registry("kind")
"""Every mechanism class by its `kind`."""

TRUST_MODELS: Registry[TrustModel] = Registry("trust")
"""Every trust model by its name: none, central, local, shuffle, and those of plugins."""
