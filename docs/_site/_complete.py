"""Finds public names whose documentation lacks something."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from docs._site._api import Name, function_of
from docs._site._docstrings import Docstring


def missing(name: Name) -> list[str]:
    """Return what the documentation of a public name lacks: Args, Returns, Raises, a text, or an example.

    Args:
        name: The name.
    """
    found = [] if ">>>" in name.doc.sections.get("Example", "") else [f"{name.name}: an example"]
    if inspect.isclass(name.value):
        found += _of_class(name)
    else:
        found += _of_function(name.name, name.value, name.doc)
    return found


def _of_class(name: Name) -> Iterator[str]:
    kind, doc = name.value, name.doc
    if not doc.text:
        yield f"{name.name}: a text"
    if dataclasses.is_dataclass(kind):
        needed = {one.name for one in dataclasses.fields(kind) if not one.name.startswith("_")}
    elif "__init__" in vars(kind) and not getattr(kind, "_is_protocol", False):
        needed = set(_arguments(kind.__init__))
    else:
        needed = set()
    documented = {*doc.items("Args"), *doc.items("Attributes")}
    yield from (f"{name.name}: {one} in Args or Attributes" for one in sorted(needed - documented))
    for own, member in name.members.items():
        function = function_of(member)
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            if not (function.__doc__ or "").strip():
                yield f"{name.name}.{own}: a text"
        else:
            yield from _of_function(f"{name.name}.{own}", function, name.doc_of(own))


def _of_function(shown: str, function: Any, doc: Docstring) -> Iterator[str]:
    if not doc.text:
        yield f"{shown}: a text"
    yield from (f"{shown}: {one} in Args" for one in _arguments(function) if one not in doc.items("Args"))
    if not _says_what_it_returns(function, doc):
        yield f"{shown}: Returns"
    if _raises(function) and not doc.items("Raises"):
        yield f"{shown}: Raises"


def _arguments(function: Any) -> list[str]:
    given = inspect.signature(function).parameters.values()
    return [one.name for one in given if one.name not in ("self", "cls") and not one.name.startswith("_")]


def _says_what_it_returns(function: Any, doc: Docstring) -> bool:
    """Return whether it returns nothing, has Returns or Yields, or begins with `Return …` or `Draw …`."""
    returned = inspect.signature(function).return_annotation
    if returned in (None, "None", "NoReturn", inspect.Signature.empty):
        return True
    return "Returns" in doc.sections or "Yields" in doc.sections or doc.text.startswith(("Return ", "Draw "))


def _raises(function: Any) -> bool:
    """Return whether the body has a `raise` of its own that is not a re-raise of any error."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        return False
    return any(isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) for node in ast.walk(tree))
