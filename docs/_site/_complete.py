"""Finds public names whose documentation lacks something. tests/test_docstrings.py states the rules."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec

from docs._site._api import Name, function_of
from docs._site._docstrings import Docstring, parsed
from dpbandits import errors

_NOTHING = re.compile(r"None|NoReturn|\w+\[None\]")
_SEVERAL = re.compile(r"tuple\[(?!.*\.\.\.\]$).*,.*\]")
_SAYS_WHAT = re.compile(r"(Return|Yield|Draw)\b")


def missing(name: Name) -> list[str]:
    """Return what the documentation of a name with a page lacks: an example, and what `undocumented` finds.

    Args:
        name: The name.
    """
    found = [] if ">>>" in name.doc.sections.get("Example", "") else [f"{name.name}: an example"]
    return found + undocumented(name)


def undocumented(name: Name) -> list[str]:
    """Return what the docstrings of an exported name lack: a text, arguments, Returns or Raises.

    Args:
        name: The name.
    """
    if inspect.isclass(name.value):
        return list(_of_class(name))
    return list(_of_function(name.name, name.value, name.doc))


def _of_class(name: Name) -> Iterator[str]:
    kind = name.value
    if not name.doc.text:
        yield f"{name.name}: a text"
    documented = {
        item
        for one in kind.__mro__
        for section in ("Args", "Attributes")
        for item in parsed(vars(one).get("__doc__")).items(section)
    }
    yield from (f"{name.name}: {one} in Args or Attributes" for one in _fields(kind) if one not in documented)
    if dataclasses.is_dataclass(kind):
        known = {*dir(kind), *kind.__dataclass_fields__}
        yield from (f"{name.name}: no attribute {one}" for one in sorted(documented - known))
    for own, member in name.members.items():
        function = function_of(member)
        if isinstance(member, property) or type(member).__name__ == "cached_property":
            if not name.doc_of(own).text:
                yield f"{name.name}.{own}: a text"
        else:
            yield from _of_function(f"{name.name}.{own}", function, name.doc_of(own))


def _fields(kind: type) -> list[str]:
    """Return the public fields of a class, or the arguments of its constructor."""
    if dataclasses.is_dataclass(kind):
        return [one.name for one in dataclasses.fields(kind) if not one.name.startswith("_")]
    if issubclass(kind, msgspec.Struct):
        return [] if kind.__module__.startswith("dpbandits.service.wire.") else [*kind.__struct_fields__]
    if getattr(kind, "_is_protocol", False):
        return []
    return _arguments(kind.__init__) if "__init__" in vars(kind) else [*getattr(kind, "_fields", ())]


def _of_function(shown: str, function: Any, doc: Docstring) -> Iterator[str]:
    if not doc.text:
        yield f"{shown}: a text"
    arguments = inspect.signature(function).parameters
    yield from (f"{shown}: {one} in Args" for one in _arguments(function) if one not in doc.items("Args"))
    named = parsed(function.__doc__).items("Args")
    yield from (f"{shown}: no argument {one}" for one in named if one not in arguments)
    if not _says_what_it_returns(function, doc):
        yield f"{shown}: Returns"
    yield from (f"{shown}: {one} in Raises" for one in _raised(function) if not _is_named(one, doc))


def _arguments(function: Any) -> list[str]:
    given = inspect.signature(function).parameters.values()
    return [one.name for one in given if one.name not in ("self", "cls") and not one.name.startswith("_")]


def _says_what_it_returns(function: Any, doc: Docstring) -> bool:
    returned = inspect.signature(function).return_annotation
    shown = "None" if returned in (None, inspect.Signature.empty) else str(returned)
    if _NOTHING.fullmatch(shown) or "Returns" in doc.sections or "Yields" in doc.sections:
        return True
    return bool(_SAYS_WHAT.match(doc.text)) and not _SEVERAL.fullmatch(shown)


def _raised(function: Any) -> list[str]:
    """Return the classes of errors that the body raises itself; "an error" if another function makes it."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError):
        return []
    made = [
        node.exc.func
        for node in ast.walk(tree)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    ]
    names = [one.id if isinstance(one, ast.Name) and _error(one.id) else "an error" for one in made]
    return [one for one in dict.fromkeys(names) if one != "NotImplementedError"]


def _error(name: str) -> Any:
    return getattr(errors, name, None) or getattr(builtins, name, None)


def _is_named(raised: str, doc: Docstring) -> bool:
    """Return whether Raises has an error or a class above it."""
    named = [_error(one) for one in doc.items("Raises")]
    kind = _error(raised)
    return bool(named) if kind is None else any(one and issubclass(kind, one) for one in named)
