"""JSON schemas of plans, their mechanisms, releases and terms, for the OpenAPI documents.

Plans and terms are sent as the exact text that their digest covers, so the type of these fields is a string.
The schema of the decoded text is a component of the OpenAPI document. `kind` selects the schema of a
mechanism. Unlike replies, plans and terms have no unknown fields: such a field could change the meaning of
the others.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_type_hints

import msgspec

from dpbandits.privacy import MECHANISMS, TRUST_MODELS, Mechanism
from dpbandits.service.wire._modes import MODES
from dpbandits.service.wire._terms import Terms

REFERENCE = "#/components/schemas/"
_SHAPES = ("box", "ball")
# Ranges that hold for every mechanism with a field of this name; docs/privacy.md lists most of them.
_RANGES: dict[str, tuple[float, float]] = {
    "coordinates": (1, 2**11),
    "cohort": (1, 2**40),
    "bound": (2.0**-60, 2.0**60),
    "reach": (2.0**-60, 2.0**60),
    "levels": (1, 2**20),
    "scale": (2.0**-10, 2.0**40),
    "noise_bits": (1, 2**40),
    "noise_probability": (0, 1),
    "least_reports": (1, 2**40),
    "silent_share": (0, 0.99),
    "largest_share": (1, 2**50),
    "size": (2, 2**20),
    "near": (1, 2**20),
    "width": (1, 2**20),
    "top_weight": (1, 2**62),
    "other_weight": (1, 2**62),
}


def plan_schemas() -> dict[str, Any]:
    """Return the schemas of the components `Plan`, `Release`, `Mechanism`, `Terms`, and of each mechanism.

    Mechanisms that are for simulations only are left out: no client accepts them.
    """
    made = {kind: MECHANISMS[kind] for kind in sorted(MECHANISMS) if not MECHANISMS[kind].simulated_only}
    names = {kind: "".join(word.capitalize() for word in kind.split("-")) + "Mechanism" for kind in made}
    one_of = {
        "oneOf": [{"$ref": REFERENCE + names[kind]} for kind in made],
        "discriminator": {
            "propertyName": "kind",
            "mapping": {kind: REFERENCE + names[kind] for kind in made},
        },
    }
    return {"Plan": _plan(), "Release": _release(), "Mechanism": one_of, **_terms()} | {
        names[kind]: _mechanism(kind, mechanism) for kind, mechanism in made.items()
    }


def _plan() -> dict[str, Any]:
    """Return the schema of a plan that a client receives: one mechanism, and an empty `per_action`."""
    number = {"type": "number", "minimum": -(2.0**60), "maximum": 2.0**60}
    properties = {
        "study": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "phase": _whole(1, 2**20),
        "support": _list(_whole(0, 2**40), minItems=1),
        "plays": _list(_whole(1, 10**15), minItems=1),
        "rank": _whole(0, 2**20),
        "mechanism": {"$ref": REFERENCE + "Mechanism"},
        "offsets": _list(number),
        "per_action": _list({"$ref": REFERENCE + "Mechanism"}, maxItems=0),
        "mixing": _list(_list(number)),
    }
    return _closed("Plan", properties, "One phase, as a client receives it.")


def _release() -> dict[str, Any]:
    """Return the schema of a release of the service, in which every client reports on all actions."""
    properties = {
        "plan": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "means": _list({"type": "number"}, minItems=1),
        "reports": _whole(1, 10**15),
        "simulated": {"type": "boolean"},
        "counts": _list(_whole(1, 10**15), maxItems=0),
    }
    return _closed("Release", properties, "The private means of one phase.")


def _mechanism(kind: str, mechanism: type[Mechanism]) -> dict[str, Any]:
    types = get_type_hints(mechanism)
    fields = [field.name for field in dataclasses.fields(mechanism)]  # type: ignore[arg-type]
    properties = {name: _field(mechanism, name, types[name]) for name in fields}
    properties["kind"] = {"type": "string", "const": kind}
    described = (mechanism.__doc__ or kind).split("\n", maxsplit=1)[0]
    return _closed(kind, properties, described)


def _field(mechanism: type[Mechanism], name: str, kind: Any) -> dict[str, Any]:
    """Return the schema of one field: its type, and its range or its possible values where they are known."""
    if name == "shape":
        return {"type": "string", "enum": list(_SHAPES)}
    laws: tuple[str, ...] = getattr(mechanism, "laws", ())
    if name == "noise" and laws:
        return {"type": "string", "enum": list(laws)}
    schema = dict(msgspec.json.schema(kind))
    if name in _RANGES:
        low, high = _RANGES[name]
        for one in schema.get("anyOf", [schema]):
            if one.get("type") in ("integer", "number"):
                one.update(minimum=low, maximum=high)
    return schema


def _terms() -> dict[str, Any]:
    """Return the schemas of terms and of the parties in them."""
    _, components = msgspec.json.schema_components([Terms], ref_template=REFERENCE + "{name}")
    terms = components["Terms"]["properties"]
    terms["trust"] = {"type": "string", "enum": sorted(TRUST_MODELS)}
    terms["mode"] = {"type": "string", "enum": ["", *MODES]}
    components["Terms"]["required"] = list(terms)
    return dict(components)


def _whole(low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high}


def _list(items: dict[str, Any], **limits: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **limits}


def _closed(title: str, properties: dict[str, Any], described: str) -> dict[str, Any]:
    """Return the schema of an object that has exactly these properties."""
    return {
        "title": title,
        "description": described,
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
