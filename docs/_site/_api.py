"""The reference of the Python API, from docstrings: one page per public name, one page per package."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import dpbandits
from docs._site._docstrings import Docstring, markdown, parsed

# Packages whose names all have a page of their own, with an example.
PUBLIC = {
    "dpbandits": "The library",
    "dpbandits.errors": "Errors",
    "dpbandits.examples": "The study of the examples",
    "dpbandits.service.client": "Client SDK",
    "dpbandits.service.actuator": "Actuator SDK",
}
# Names of other packages that the guides use: package, title and names.
ALSO = {
    "dpbandits.service.shared": ("Connections of the SDKs", ("AsyncTransport", "Transport")),
    "dpbandits.service.wire": ("Pins", ("Pins",)),
    "dpbandits.options": ("Options in detail", ("Effect", "Encoding")),
    "dpbandits.answers": (
        "Answers",
        ("Answer", "Lead", "OptionResult", "answer_of", "participants_to_decide"),
    ),
    "dpbandits.privacy": (
        "Privacy",
        (
            *("AuditResult", "Claim", "KeyedNoise", "Message", "NoiseSource", "SecureNoise", "Violation"),
            *("audit", "calibrate", "guarantee"),
        ),
    ),
    "dpbandits.privacy.accounting": (
        "Accounting",
        ("Binomial", "IntegerSum", "PureEvent", "discrete_laplace_scale"),
    ),
    "dpbandits.privacy.auditing": ("Auditing", ("reveal",)),
    "dpbandits.privacy.tails": ("Radii of errors", ("squared_norms", "sub_gaussian_radius")),
    "dpbandits.privacy.trust": ("Mechanisms to derive from", ("CentralLattice",)),
    "dpbandits.protocol": (
        "The learner",
        (
            *("Fit", "PhaseEvidence", "Progress", "RewardModel", "action_at", "add_up", "best_estimate"),
            *("digest", "gap_bound", "leader", "nothing", "plausible", "play_order", "predict"),
            *("register_model", "report_totals", "sums_of"),
        ),
    ),
    "dpbandits.protocol.assignment": ("Errors of released means", ("MeanErrors",)),
    "dpbandits.rounds": ("Carriers", ("Collector", "Custody", "Deadlines", "GroupRounds", "Rounds")),
    "dpbandits.storage": ("Stores", ("MemoryStore", "Store", "Transaction", "open_store")),
    "dpbandits.simulation": ("Sweeps on clusters", ("Engine", "run_tasks")),
    "dpbandits.world": ("Populations and data", ("Clients", "load")),
    "dpbandits.federation": ("Sites", ("DataSource", "Grid")),
    "dpbandits.design": (
        "Designs",
        ("Certificate", "Cover", "Selection", "certify", "cover", "cover_size", "support_bound"),
    ),
    "dpbandits.baselines": (
        "Baselines",
        ("LinUCBTrace", "Peer", "PrivateLinUCBTrace", "linucb", "private_linucb"),
    ),
}
# Packages for people who extend dpbandits. Their names share a page.
PACKAGES = (
    "actions",
    "options",
    "answers",
    "choosing",
    "design",
    "privacy",
    "privacy.accounting",
    "privacy.auditing",
    "privacy.noise",
    "privacy.tails",
    "privacy.trust",
    "protocol",
    "protocol.assignment",
    "protocol.model",
    "rounds",
    "simulation",
    "storage",
    "world",
    "baselines",
    "federation",
    "vdaf",
)
SOURCE = Path(dpbandits.__file__).parent
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Name:
    """A public name.

    Attributes:
        module: The package that exports it.
        name: The name.
    """

    module: str
    name: str

    @cached_property
    def value(self) -> Any:
        """The object itself."""
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def page(self) -> str:
        """The path of its page below reference/."""
        folder = self.module.removeprefix("dpbandits").lstrip(".").replace(".", "-") or "dpbandits"
        return f"api/{folder}/{self.name}.md"

    @property
    def doc(self) -> Docstring:
        """Its docstring, in parts."""
        return parsed(self.value.__doc__)

    @cached_property
    def members(self) -> dict[str, Any]:
        """The public methods and properties that a class defines itself, or inherits within dpbandits."""
        if not inspect.isclass(self.value):
            return {}
        found = dict[str, Any]()
        for kind in reversed(self.value.__mro__):
            if kind.__module__.startswith("dpbandits"):
                found |= {name: one for name, one in vars(kind).items() if not name.startswith("_")}
        fields = getattr(self.value, "__dataclass_fields__", {})
        return {name: one for name, one in found.items() if _is_member(one) and name not in fields}

    def doc_of(self, member: str) -> Docstring:
        """Return the docstring of a method or property, with the sections of what it overrides or implements.

        Args:
            member: The name of the method.
        """
        text, sections = "", dict[str, str]()
        for kind in [*_implemented(self.value), *reversed(self.value.__mro__)]:
            inherited = vars(kind).get(member) if kind.__module__.startswith("dpbandits") else None
            doc = parsed(None if inherited is None else function_of(inherited).__doc__)
            text, sections = doc.text or text, sections | doc.sections
        return Docstring(text, sections)


def public_names() -> list[Name]:
    """Return every name that has a page of its own."""
    names = [Name(module, name) for module in PUBLIC for name in _exported(module)]
    return names + [Name(module, name) for module, (_, own) in ALSO.items() for name in own]


def exported_names() -> list[Name]:
    """Return every function and class that the stub of a package exports, each once."""
    stubs = sorted(SOURCE.rglob("__init__.pyi"))
    modules = [".".join(("dpbandits", *path.parent.relative_to(SOURCE).parts)) for path in stubs]
    names = [Name(module, name) for module in modules for name in _exported(module)]
    own = [one for one in names if inspect.isclass(one.value) or inspect.isfunction(one.value)]
    return list({id(one.value): one for one in own if one.value.__module__.startswith("dpbandits")}.values())


@cache
def _protocols() -> dict[type, set[str]]:
    """Return every protocol of dpbandits, with the names of its members."""
    found = dict[type, set[str]]()
    for path in SOURCE.rglob("*.py"):
        if "(Protocol" in path.read_text(encoding="utf-8"):
            module = ".".join(("dpbandits", *path.relative_to(SOURCE).with_suffix("").parts))
            for kind in vars(importlib.import_module(module)).values():
                if getattr(kind, "_is_protocol", False) and kind.__module__ == module:
                    members = {*vars(kind), *inspect.get_annotations(kind)}
                    found[kind] = {name for name in members if not name.startswith("_")}
    return found


def _implemented(kind: type) -> list[type]:
    """Return the protocols of dpbandits whose members a class has."""
    own = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    return [one for one, members in _protocols().items() if members and members <= own]


def _exported(module: str) -> list[str]:
    package = importlib.import_module(module)
    if module == "dpbandits.errors":
        return [name for name, one in vars(package).items() if inspect.isclass(one)]
    exported = getattr(package, "__all__", None) or dir(package)
    return [name for name in exported if not name.startswith("_")]


def _is_member(one: Any) -> bool:
    kinds = (property, classmethod, staticmethod)
    return isinstance(one, kinds) or inspect.isfunction(one) or type(one).__name__ == "cached_property"


def function_of(member: Any) -> Any:
    """Return the function of a method or property.

    Args:
        member: As `Name.members` has it.
    """
    if isinstance(member, property):
        return member.fget
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return getattr(member, "func", member)


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path below reference/ and the text of each page."""
    names = public_names()
    yield "api/index.md", _index(names)
    for name in names:
        yield name.page, page(name)
    for package in PACKAGES:
        yield f"api/packages/{package.replace('.', '-')}.md", _package_page(package)


def _index(names: list[Name]) -> str:
    lines = [
        "# Python API",
        "",
        "`import dpbandits as dp` is all that most programs need. Each name below has a page with its "
        "arguments, what it returns and raises, and an example that the tests run.",
        "",
    ]
    heads = {**PUBLIC, **{module: title for module, (title, _) in ALSO.items()}}
    for module, title in heads.items():
        own = [name for name in names if name.module == module]
        lines += [f"## {title}", "", f"`{module}`", ""]
        lines += [f"-   [`{one.name}`]({one.page.removeprefix('api/')}): {one.doc.summary}" for one in own]
        lines.append("")
    lines += [
        "## Packages",
        "",
        "All other names of these packages are internal: parts of the library use them, and they may change "
        "in any version. Their docstrings are shown for people who read or extend the code.",
        "",
    ]
    lines += [f"-   [`dpbandits.{one}`](packages/{one.replace('.', '-')}.md)" for one in PACKAGES]
    return "\n".join(lines) + "\n"


def page(name: Name) -> str:
    """Return the page of a public name.

    Args:
        name: The name.
    """
    lines = [f"# {name.name}", "", f"`{name.module}.{name.name}`", ""]
    lines += _described(name.name, name.value, name.doc)
    for own, member in name.members.items():
        lines += ["", f"## {own}", ""]
        lines += _described(own, member, name.doc_of(own))
    return "\n".join(lines) + "\n"


def _described(own: str, value: Any, doc: Docstring) -> list[str]:
    shown = signature(own, value)
    return [*([f"```python\n{shown}\n```", ""] if shown else []), markdown(doc)]


def signature(own: str, value: Any) -> str:
    """Return the line with which something is called, on several lines if it is long.

    Args:
        own: The name.
        value: A function, a method or a class. Others have no signature.
    """
    if isinstance(value, property) or type(value).__name__ == "cached_property":
        return ""
    called = function_of(value)
    if not callable(called):
        return ""
    if inspect.isclass(called) and called.__init__ in (object.__init__, Exception.__init__):
        return f"class {own}"
    try:
        found = inspect.signature(called)
    except (TypeError, ValueError):
        return ""
    parts = _parameters([one for one in found.parameters.values() if one.name not in ("self", "cls")])
    silent = inspect.isclass(called) or found.return_annotation is found.empty
    ending = "" if silent else f" -> {_shown(found.return_annotation)}"
    text = f"{own}({', '.join(parts)}){ending}"
    return text if len(text) <= 88 else f"{own}(\n    " + ",\n    ".join(parts) + f",\n){ending}"


def _parameters(given: list[inspect.Parameter]) -> list[str]:
    """Return the parameters as they are written in Python, with `*` and `/` where they belong."""
    parts, before = list[str](), None
    for one in given:
        if before == one.POSITIONAL_ONLY != one.kind:
            parts.append("/")
        if one.kind == one.KEYWORD_ONLY and before not in (one.KEYWORD_ONLY, one.VAR_POSITIONAL):
            parts.append("*")
        stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
        kind = "" if one.annotation is one.empty else f": {_shown(one.annotation)}"
        default = "" if one.default is one.empty else f" = {_ADDRESS.sub('', repr(one.default))}"
        parts.append(f"{stars}{one.name}{kind}{default}")
        before = one.kind
    return parts


def _shown(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _package_page(package: str) -> str:
    module = importlib.import_module(f"dpbandits.{package}")
    lines = [f"# dpbandits.{package}", "", _spaced_doc(module.__doc__), ""]
    for own in sorted(getattr(module, "__all__", ["Actions"])):
        value = getattr(module, own)
        lines += [f"## {own}", ""]
        if getattr(value, "__module__", "").startswith("dpbandits") and callable(value):
            lines += [*_described(own, value, parsed(value.__doc__)), ""]
        else:
            kind = type(value).__name__
            alias = kind in ("GenericAlias", "_GenericAlias", "_CallableGenericAlias", "UnionType")
            lines += ["A type alias." if alias else f"A constant, of type `{kind}`.", ""]
    return "\n".join(lines) + "\n"


def _spaced_doc(text: str | None) -> str:
    return markdown(parsed(text))
