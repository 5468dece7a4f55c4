"""The OpenAPI document of a table of endpoints. Its schemas are made from the message types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from dpbandits.service.shared._endpoint import Endpoint
from dpbandits.service.shared._request_checks import NUMBER_LIMIT
from dpbandits.service.wire import ErrorReply, plan_schemas

VERSION = "1.0.0"
_ALWAYS = (400, 405, 413, 429, 500, 503)  # statuses of refusals that every endpoint has
_TEXT = {"text/plain": {"schema": {"type": "string"}}}


def description(title: str, endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of these endpoints."""
    kinds = {kind for e in endpoints for kind in (e.takes, e.gives) if _is_struct(kind)} | {ErrorReply}
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    schemas, components = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")
    by_type = dict(zip(ordered, schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        operation = _operation(endpoint, by_type)
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": VERSION},
        "paths": paths,
        "components": {
            "schemas": {**components, **_used(components)},
            "securitySchemes": {
                role: {"type": "http", "scheme": "bearer", "description": f"the {role}'s secret"}
                for role in sorted({endpoint.role for endpoint in endpoints if endpoint.role})
            },
        },
    }


def _used(components: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of plans and terms if a message contains their text."""
    return plan_schemas() if "contentSchema" in str(components) else {}


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _operation(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method.lower()}{endpoint.path}").strip("_"),
        "responses": _responses(endpoint, schemas),
    }
    parameters = _parameters(endpoint)
    if parameters:
        operation["parameters"] = parameters
    if endpoint.role is not None:
        operation["security"] = [{endpoint.role: []}]
    if endpoint.takes is bytes:
        content: dict[str, Any] = {
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
        }
        operation["requestBody"] = {"required": True, "content": content}
    elif endpoint.takes is not None:
        content = {"application/json": {"schema": schemas[endpoint.takes]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    number = {"type": "integer", "minimum": 1, "maximum": NUMBER_LIMIT}
    named = [
        {"name": name, "in": "path", "required": True, "schema": number}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    return named + [
        {"name": name, "in": "query", "required": False, "schema": {"type": "string"}}
        for name in endpoint.query
    ]


def _responses(endpoint: Endpoint, schemas: dict[Any, Any]) -> dict[str, Any]:
    refusals = {*_ALWAYS, *endpoint.refusals}
    refusals |= {401, 403} if endpoint.role is not None else set()
    refusals |= {422} if endpoint.takes is not None else set()
    refusals |= {404} if "{" in endpoint.path else set()
    error = {"application/json": {"schema": schemas[ErrorReply]}}
    return {
        **_success(endpoint.gives, schemas),
        **{str(status): {"description": "refused", "content": error} for status in sorted(refusals)},
    }


def _success(gives: Any, schemas: dict[Any, Any]) -> dict[str, Any]:
    if gives is None:
        return {"204": {"description": "done; no content"}}
    if _is_struct(gives):
        content = {"application/json": {"schema": schemas[gives]}}
    else:
        content = {"application/json": {"schema": {"type": "object"}}} if gives is dict else _TEXT
    return {"200": {"description": "done", "content": content}}
