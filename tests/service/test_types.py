"""Types for TypeScript, generated from the OpenAPI documents, have no `unknown` where a client needs a type.

It needs Node and two packages of npm, in the versions of typescript/package-lock.json. `make test` installs
them into its virtual environment where it can; without them these tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service.wire import plan_schemas

from .test_http import Live, coordinator

__all__ = ["coordinator"]  # a fixture

HERE = Path(__file__).parent / "typescript"
NODE = shutil.which("node")
TOOLS = Path(os.environ.get("DPBANDITS_NPM", Path(sys.prefix) / "npm"))
pytestmark = pytest.mark.skipif(
    NODE is None or not (TOOLS / "node_modules" / "openapi-typescript").is_dir(),
    reason=f"no node, or no openapi-typescript in {TOOLS}: `make types` installs it, if there is npm",
)


def _checked(folder: Path, *cases: tuple[Any, list[str]]) -> Any:
    """Return what check.mjs says about some documents and the named schemas in them."""
    path = folder / "cases.json"
    path.write_text(json.dumps([{"document": one, "names": names} for one, names in cases]), encoding="utf-8")
    assert NODE is not None
    words = [NODE, HERE / "check.mjs", TOOLS, path, HERE / "program.ts"]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


def test_generated_types_compile_and_know_every_field_of_a_plan(coordinator: Live, tmp_path: Path) -> None:
    document = coordinator.http.get("/openapi.json").json()
    replies = [one for one in document["components"]["schemas"] if one.endswith("Reply")]
    schemas = plan_schemas()
    schemas["Plan"]["properties"]["offsets"]["items"] = {}
    schemas["NoneMechanism"]["properties"]["cohort"] = {"type": "string"}
    wrong = {**document, "paths": {}, "components": {"schemas": schemas}}
    found, noticed = _checked(tmp_path, (document, [*plan_schemas(), *replies]), (wrong, ["Plan"]))
    assert found["errors"] == []
    assert found["loose"] == []
    assert found["parts"] > 50  # it has looked at something
    # A field without a type, and one of another type than the program uses, are noticed.
    assert noticed["loose"] == ["Plan.offsets[]"]
    assert any("'offset' is of type 'unknown'" in one for one in noticed["errors"])
    assert any("arithmetic operation" in one for one in noticed["errors"])
