"""The docstrings of everything that a package exports are complete.

A name is exported if the `__init__.pyi` of a package has it. The rules hold for exported functions, and for
exported classes with their public methods and properties:

- Everything has a text.
- `Args` names every argument of a function, and no other. Arguments with a leading underscore are private.
- A function that returns something has `Returns` or `Yields`, or its text begins with `Return`, `Yield` or
  `Draw`. If it returns a tuple of several things, it has `Returns`.
- `Raises` names every error that the body itself raises, or a class above it. If another function makes the
  error, `Raises` names some error.
- `Attributes` or `Args` of a class names every public field of a dataclass, struct or named tuple, or every
  argument of `__init__`. A dataclass names no others.
- A method inherits the sections of what it overrides, and a class the fields of the classes above it. A class
  that has all members of a protocol of dpbandits inherits from the protocol too.

The structs of `service.wire` need no `Attributes`. Their docstrings and the `msgspec.Meta` of their fields
are the descriptions in `/openapi.json`, which lists every field with its type.

A name with a page of its own also has an example (tests/test_site.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from docs._site import _api
from docs._site._complete import undocumented

import dpbandits
from dpbandits.errors import InvalidValue, NotAvailable

NAMES = _api.exported_names()


def test_the_exports_of_all_packages_are_checked() -> None:
    assert len(NAMES) > 400
    assert {"dpbandits", "dpbandits.privacy", "dpbandits.service.wire"} <= {name.module for name in NAMES}


@pytest.mark.parametrize("name", NAMES, ids=lambda name: f"{name.module}.{name.name}")
def test_the_docstrings_are_complete(name: _api.Name) -> None:
    assert undocumented(name) == []


def _poor(first: int, *, _second: int = 0) -> tuple[int, int]:
    """Return numbers.

    Args:
        third: It does not exist.

    Raises:
        NotAvailable: It is another error than the one below.
    """
    if first < 0:
        raise InvalidValue("first", first, "a number")
    return first, _second


@dataclass
class _Base:
    """A class with a documented method.

    Attributes:
        number: A number.
        gone: It does not exist.
    """

    number: int

    def add(self, other: int) -> int:
        """Return the sum.

        Args:
            other: Another number.
        """
        raise NotAvailable("add")

    def unit(self) -> float:
        """The unit."""
        return 1.0


class _Clocked(_Base):
    """It is also a clock, as a `Clock` of dpbandits is."""

    def add(self, other: int) -> int:
        return other

    def now(self) -> float:
        return 0.0


def _found(monkeypatch: pytest.MonkeyPatch, value: object) -> list[str]:
    monkeypatch.setattr(dpbandits, "checked", value, raising=False)
    return undocumented(_api.Name("dpbandits", "checked"))


def test_what_is_missing_or_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(monkeypatch, _poor) == [
        "checked: first in Args",
        "checked: no argument third",
        "checked: Returns",
        "checked: InvalidValue in Raises",
    ]
    monkeypatch.setattr(_Base, "__module__", "dpbandits.test")
    expected = ["checked: no attribute gone", "checked.add: NotAvailable in Raises", "checked.unit: Returns"]
    assert _found(monkeypatch, _Base) == expected


def test_documentation_is_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (_Base, _Clocked):
        monkeypatch.setattr(kind, "__module__", "dpbandits.test")
    assert _found(monkeypatch, _Clocked) == ["checked: no attribute gone", "checked.unit: Returns"]
