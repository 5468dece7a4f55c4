"""What clients in other languages and in browsers rely on: open replies, nulls, features, CORS."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan, decode
from dpbandits.service.shared import Endpoint
from dpbandits.service.wire import (
    ClientRequest,
    CollectionReply,
    ErrorReply,
    StudyReply,
    TaskReply,
    TaskRequest,
    Terms,
)

from .helpers import MODELS, Deployment, small_study
from .test_http import REPORTS, Live, coordinator, shuffler

__all__ = ["coordinator", "shuffler"]  # fixtures

OPEN = {
    "/v1/study": "GET",
    "/v1/clients": "POST",
    "/v1/tasks": "POST",
    REPORTS: "POST",
    "/openapi.json": "GET",
}
CLOSED = ("/v1/status", "/v1/results", "/v1/progress", "/v1/enrolments", "/v1/schedule", "/v1/rounds")
HEADER = "access-control-allow-origin"


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_a_task_tells_the_time_left_and_null_where_nothing_is_known(trust: str, mode: str | None) -> None:
    deployed = Deployment(study=small_study(trust), mode=mode)
    early = deployed.task(deployed.enrolled(1)[0])  # before the first attempt there is nothing to join
    assert early.state == "wait"
    assert [early.phase, early.plan, early.plan_digest, early.sum_bits, early.reported] == [None] * 5
    deployed.advance()
    members = deployed.join(6)
    joined = deployed.task(members[0])
    assert (joined.state, joined.seconds_left) == ("joined", None)
    assert hashlib.sha256(joined.plan.encode()).hexdigest() == joined.plan_digest
    assert decode(joined.plan, Plan).digest == joined.plan_digest
    deployed.play()
    deployed.clock.time += 12.5
    due = deployed.task(members[0])
    assert (due.state, due.seconds_left) == ("report", 60 - 12.5)
    assert due.reported is (None if mode else False)
    deployed.report(members)
    over = deployed.task(members[0])
    assert (over.state, over.plan, over.seconds_left) == ("over", None, None)
    assert over.reported is (None if mode else True)
    deployed.close()


CENTRAL = ("ball-norm", "discrete-gaussian", "k-norm", "laplace")


@pytest.mark.parametrize(
    ("trust", "mode", "features"),
    [
        ("none", None, ["none/none"]),
        ("central", None, [f"central-lattice/{one}" for one in CENTRAL]),
        (
            "local",
            None,
            [
                "local-band/list",
                *(f"local-lattice/{one}" for one in ("discrete-gaussian", "k-norm", "laplace")),
                "local-list/list",
            ],
        ),
        (
            "shuffle",
            "split",
            [
                "summed-shares/discrete-gaussian",
                "summed-shares/polya",
                "mode/split",
            ],
        ),
    ],
)
def test_the_features_of_a_study_are_known_before_a_client_enrols(
    trust: str, mode: str | None, features: list[str]
) -> None:
    deployed = Deployment(study=small_study(trust), mode=mode)
    about = deployed.coordinator.operator.about()
    assert (about.features, about.conformance) == (features, False)
    deployed.advance()
    plan = deployed.run(lambda t: deployed.coordinator.rounds.journal.plan(t, 1))
    assert f"{plan.mechanism.kind}/{plan.mechanism.noise_name}" in about.features
    deployed.close()


@pytest.mark.parametrize("kind", [ErrorReply, StudyReply, TaskReply, CollectionReply])
def test_a_reply_may_have_new_fields(kind: type[msgspec.Struct]) -> None:
    text = dict.fromkeys(("error", "message", "terms", "signature"), "text")
    counts = dict.fromkeys(("actions", "dimension", "horizon", "phase", "attempt", "reports"), 1)
    state = "wait" if kind is TaskReply else "closed"
    known = {"study": "0" * 64, "state": state, "poll_seconds": 1.0, **text, **counts}
    assert isinstance(msgspec.convert({**known, "new-field": [1]}, kind), kind)


@pytest.mark.parametrize("sums", [[-1], [1 << 63], [0.5], ["1"], None])
def test_a_reply_with_impossible_sums_is_unreadable(sums: object) -> None:
    known = {"study": "0" * 64, "phase": 1, "attempt": 1, "state": "summed", "reports": 1}
    told = {"plan": "0" * 64, "sums": [1], "reports": 1}
    assert msgspec.convert({**known, "sums": told}, CollectionReply).sums is not None
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({**known, "sums": {**told, "sums": sums}}, CollectionReply)


@pytest.mark.parametrize("kind", [ClientRequest, TaskRequest, Terms])
def test_requests_and_terms_may_not(kind: type[msgspec.Struct]) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"token": "0" * 64, "pseudonym": "0" * 64, "new-field": 1}, kind)


def test_browsers_may_call_the_endpoints_of_clients_and_no_others(coordinator: Live) -> None:
    asked = {"Origin": "https://page.example", "Access-Control-Request-Headers": "authorization"}
    for path, method in OPEN.items():
        preflight = coordinator.http.options(path, headers=asked)
        assert preflight.status_code == 204, path
        assert preflight.headers[HEADER] == "*"
        assert preflight.headers["access-control-allow-methods"] == method
        assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
        reply = coordinator.http.request(method, path, headers=asked)  # a refusal can be read, too
        assert reply.headers[HEADER] == "*", path
        assert "access-control-allow-credentials" not in reply.headers
    for path in (*CLOSED, "/metrics"):
        preflight = coordinator.http.options(path, headers=asked)
        assert preflight.status_code == 405
        assert HEADER not in preflight.headers
        assert HEADER not in coordinator.call("operator", "GET", path).headers


def test_a_browser_can_read_that_a_report_was_accepted(shuffler: Live) -> None:
    reply = shuffler.call("ticket", "POST", REPORTS, content=shuffler.deployed.body(shuffler.member))
    assert (reply.status_code, reply.headers[HEADER]) == (204, "*")
    assert shuffler.http.get("/v1/key").headers[HEADER] == "*"
    assert HEADER not in shuffler.call("coordinator", "GET", "/v1/phases/1/attempts/1/collection").headers


def test_no_endpoint_of_another_role_can_be_opened_to_browsers() -> None:
    async def handler(_call: Any) -> None: ...

    with pytest.raises(InvalidValue, match="browsers"):
        Endpoint(
            method="GET", path="/", role="operator", summary="", gives=None, handler=handler, browsers=True
        )
