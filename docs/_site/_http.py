"""The reference of the HTTP API, from the OpenAPI descriptions that the parties serve."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dpbandits.service.coordinator._app import CoordinatorService, coordinator_endpoints
from dpbandits.service.shared._common_endpoints import common_endpoints
from dpbandits.service.shared._openapi import description
from dpbandits.service.shuffler._app import ShufflerService, shuffler_endpoints

_PARTIES: dict[str, tuple[Any, Any]] = {
    "coordinator": (CoordinatorService, coordinator_endpoints),
    "shuffler": (ShufflerService, shuffler_endpoints),
}


def described(party: str) -> dict[str, Any]:
    """Return the OpenAPI document of a party.

    Args:
        party: `coordinator` or `shuffler`.
    """
    service, endpoints = _PARTIES[party]
    served = object.__new__(service)  # the tables need the handlers, and no store
    title = f"dpbandits {party}"
    return description(title, common_endpoints(title, served, endpoints(served)))


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path below reference/ and the text of each page."""
    for party in _PARTIES:
        yield f"http/{party}.md", page(party)


def page(party: str) -> str:
    """Return the page of a party's HTTP API.

    Args:
        party: `coordinator` or `shuffler`.
    """
    document = described(party)
    lines = [
        f"# HTTP API of the {party}",
        "",
        f"This page is made from the OpenAPI {document['openapi']} description that the {party} serves at "
        "`/openapi.json`. [The wire protocol](../../protocol.md) says what a client does with the requests.",
        "",
        "| request | role | purpose |",
        "|---|---|---|",
    ]
    operations = [
        (method.upper(), path, one) for path, own in document["paths"].items() for method, one in own.items()
    ]
    for method, path, one in operations:
        role = ", ".join(name for each in one.get("security", []) for name in each) or "everybody"
        lines.append(f"| [`{method} {path}`](#{_anchor(method, path)}) | {role} | {one['summary']} |")
    for method, path, one in operations:
        lines += ["", f"## {method} {path}", "", f"{one['summary']}.", "", *_operation(one)]
    lines += ["", "## Messages", ""]
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f"### {name}", "", *_schema(schema)]
    return "\n".join(lines) + "\n"


def _anchor(method: str, path: str) -> str:
    return re.sub(r"[^a-z0-9 ]", "", f"{method} {path}".lower()).replace(" ", "-")


def _operation(one: dict[str, Any]) -> list[str]:
    lines = list[str]()
    for parameter in one.get("parameters", []):
        lines.append(f"-   `{parameter['name']}` in the {parameter['in']}: {_kind(parameter['schema'])}")
    for label, holder in (("takes", one.get("requestBody")), *_replies(one)):
        if holder is None:
            continue
        for content, own in holder.get("content", {}).items():
            lines.append(f"-   {label}: {_kind(own['schema'])} as `{content}`")
        if not holder.get("content"):
            lines.append(f"-   {label}: nothing")
    refused = [status for status in one["responses"] if not status.startswith("2")]
    lines.append(f"-   refusals: {', '.join(refused)}, each with [ErrorReply](#errorreply)")
    return lines


def _replies(one: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"returns {status}", own) for status, own in one["responses"].items() if status.startswith("2")]


def _schema(schema: dict[str, Any]) -> list[str]:
    lines = [_text(schema.get("description", "")), ""] if schema.get("description") else []
    required = set(schema.get("required", []))
    if schema.get("properties"):
        lines += ["| field | type | required |", "|---|---|---|"]
        for name, own in schema["properties"].items():
            lines.append(f"| `{name}` | {_kind(own)} | {'yes' if name in required else 'no'} |")
        lines.append("")
    elif not schema.get("description"):
        lines += [_kind(schema), ""]
    return lines


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any value")
    if kind == "array":
        return f"list of {_kind(schema['items'])}" if isinstance(schema.get("items"), dict) else "list"
    limits = [f"{word} {schema[key]}" for key, word in _LIMITS.items() if key in schema]
    return " ".join([str(kind), *limits])


_LIMITS = {
    "minimum": "≥",
    "maximum": "≤",
    "minLength": "of length ≥",
    "maxLength": "of length ≤",
    "pattern": "that matches",
    "format": "in format",
}


def _text(text: str) -> str:
    """Return the first paragraph of a docstring."""
    return re.sub(r"\s+", " ", text.split("\n\n", 1)[0]).replace("<", "&lt;")
