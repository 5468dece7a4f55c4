"""Valid and invalid requests generated from the OpenAPI documents, with every kind of secret.

No request may lead to a status 5xx, a traceback, a reply that the document does not describe, or a new report
or release.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

import dpbandits

from .test_http import TOKENS, Live, coordinator, shuffler

__all__ = ["coordinator", "shuffler"]  # fixtures

EXAMPLES = 8
SOURCE = Path(dpbandits.__file__).parent
SECRETS = (None, "stranger", "operator", "actuator", "coordinator", "client", "ticket", "enrolment")


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize("party", ["coordinator", "shuffler"])
def test_nothing_made_up_breaks_a_party(
    party: str, mode: GenerationMode, request: pytest.FixtureRequest
) -> None:
    live: Live = request.getfixturevalue(party)
    schema = schemathesis.openapi.from_dict(live.http.get("/openapi.json").json())
    before = _kept(live)
    operations = [found.ok() for found in schema.get_all_operations()]
    assert len(operations) >= 10
    for operation in operations:
        closes = operation.path.endswith("/close")  # this request would really close the collection
        if not closes and (mode is GenerationMode.POSITIVE or _can_be_wrong(operation)):
            _try(live, operation, mode)
    assert _kept(live) == before


def _try(live: Live, operation: Any, mode: GenerationMode) -> None:
    cases = operation.as_strategy(generation_mode=mode)

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(case=cases)
    def check(case: Any) -> None:
        for who in SECRETS:
            headers = {} if who is None else {"Authorization": f"Bearer {live.secret(who)}"}
            reply = case.call(base_url=str(live.http.base_url), headers=headers)
            assert reply.status_code < 500, (operation.label, who)
            assert "Traceback" not in reply.text
            assert str(reply.status_code) in operation.definition.raw["responses"], (operation.label, who)

    check()


def _can_be_wrong(operation: Any) -> bool:
    """Return whether the document describes parameters or a body for a request."""
    raw = operation.definition.raw
    return "parameters" in raw or "application/json" in raw.get("requestBody", {}).get("content", {})


def _kept(live: Live) -> tuple[int, int]:
    with live.deployed.store.transaction() as transaction:
        return transaction.count_reports(1, 1), len(transaction.releases())


def test_the_secrets_are_those_of_the_table() -> None:
    assert set(TOKENS) < set(SECRETS)


def test_the_document_lists_every_error_code(coordinator: Live) -> None:
    document = coordinator.http.get("/openapi.json").json()
    listed = document["components"]["schemas"]["ErrorReply"]["properties"]["error"]["enum"]
    raised = {"failure", "already-reported", "not-joined"}  # these are not raised by their literal name
    for folder in (
        "storage",
        "rounds",
        "service/coordinator",
        "service/shuffler",
        "service/shared",
        "service/wire",
    ):
        for file in (SOURCE / folder).glob("*.py"):
            raised |= set(re.findall(r'Refused\(\s*"([a-z-]+)"', file.read_text(encoding="utf-8")))
    assert len(raised) > 20
    assert set(listed) == raised - {"not-pinned"}  # only clients have pins
