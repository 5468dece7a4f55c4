"""Both parties over HTTP: which role may call which endpoint, what is refused, and that no secret leaks."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from dpbandits.errors import InvalidValue, StorageError
from dpbandits.service.coordinator import coordinator_app
from dpbandits.service.shared import Limits, Rates, RoleTokens
from dpbandits.service.shuffler import shuffler_app
from dpbandits.service.wire import hashed, new_secret

from .helpers import Deployment, Member, small_study
from .live import served

TOKENS = {role: new_secret() for role in ("operator", "actuator", "coordinator")}
ROLES = RoleTokens(hashes={role: hashed(token) for role, token in TOKENS.items()})
REPORTS = "/v1/phases/1/attempts/1/reports"
COLLECTION = "/v1/phases/1/attempts/1/collection"


@dataclass
class Live:
    deployed: Deployment
    http: httpx.Client
    member: Member
    code: str

    def secret(self, who: str) -> str:
        known = {
            "client": self.member.token,
            "ticket": self.member.ticket,
            "enrolment": self.code,
            "stranger": "x" * 43,
            **TOKENS,
        }
        return known[who]

    def call(self, who: str | None, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {} if who is None else {"Authorization": f"Bearer {self.secret(who)}"}
        return self.http.request(method, path, headers=headers, **options)


@pytest.fixture
def coordinator() -> Iterator[Live]:
    with _coordinator(Limits(burst=10_000, body_bytes=4096)) as live:
        yield live


@contextlib.contextmanager
def _coordinator(limits: Limits) -> Iterator[Live]:
    """A study that is gathering its cohort, with one client in it and one unused code."""
    deployed = Deployment(study=small_study("central"), mode=None)
    deployed.advance()
    (member,) = deployed.enrolled(1)
    deployed.task(member)
    code = deployed.coordinator.operator.new_codes(1).codes[0]
    deployed.run(lambda t: deployed.coordinator.operator.keep_codes(t, [code]))
    app = coordinator_app(deployed.coordinator, ROLES, limits)
    with served(app) as url, httpx.Client(base_url=url) as http:
        yield Live(deployed=deployed, http=http, member=member, code=code)


@pytest.fixture
def shuffler() -> Iterator[Live]:
    """A shuffler with an open collection, and one client of its cohort."""
    deployed = Deployment(study=small_study("shuffle"), mode="trusted")
    deployed.advance()
    members = deployed.join(6)
    deployed.play()
    assert deployed.link is not None
    with served(shuffler_app(deployed.link.shuffler, ROLES)) as url, httpx.Client(base_url=url) as http:
        yield Live(deployed=deployed, http=http, member=members[0], code="c" * 43)
    deployed.coordinator.close()


WHO = (None, "stranger", "operator", "actuator", "coordinator", "client", "ticket", "enrolment")

# The status of each endpoint without a secret, with an unknown one, and with each kind of secret (see WHO).
COORDINATOR = {
    ("GET", "/v1/study"): (200, 200, 200, 200, 200, 200, 200, 200),
    ("GET", "/healthz"): (200, 200, 200, 200, 200, 200, 200, 200),
    ("GET", "/readyz"): (200, 200, 200, 200, 200, 200, 200, 200),
    ("GET", "/openapi.json"): (200, 200, 200, 200, 200, 200, 200, 200),
    ("GET", "/metrics"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("GET", "/v1/status"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("POST", "/v1/orders"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("GET", "/v1/progress"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("GET", "/v1/results"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("POST", "/v1/enrolments"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("GET", "/v1/play"): (401, 401, 403, 200, 403, 401, 401, 401),
    ("GET", "/v1/schedule"): (401, 401, 403, 200, 403, 401, 401, 401),
    ("POST", "/v1/rounds"): (401, 401, 403, 409, 403, 401, 401, 401),
    ("POST", "/v1/clients"): (401, 401, 403, 403, 403, 401, 401, 200),
    ("POST", "/v1/tasks"): (401, 401, 403, 403, 403, 200, 401, 401),
    ("POST", REPORTS): (401, 401, 403, 403, 403, 401, 422, 401),
}

SHUFFLER = {
    ("GET", "/v1/key"): (200, 200, 200, 200, 200, 200, 200, 200),
    ("GET", "/metrics"): (401, 401, 200, 403, 403, 401, 401, 401),
    ("GET", "/v1/statement"): (401, 401, 403, 403, 200, 401, 401, 401),
    ("GET", COLLECTION): (401, 401, 403, 403, 200, 401, 401, 401),
    ("PUT", COLLECTION): (401, 401, 403, 403, 422, 401, 401, 401),
    ("GET", f"{COLLECTION}/shares"): (401, 401, 403, 403, 409, 401, 401, 401),
    ("GET", f"{COLLECTION}/verifiers"): (401, 401, 403, 403, 409, 401, 401, 401),
    ("POST", f"{COLLECTION}/sums"): (401, 401, 403, 403, 409, 401, 401, 401),
    ("POST", REPORTS): (401, 401, 403, 403, 403, 401, 422, 401),
    ("POST", f"{COLLECTION}/close"): (401, 401, 403, 403, 200, 401, 401, 401),
}


def _body(live: Live, path: str) -> dict[str, Any]:
    bodies: dict[str, dict[str, Any]] = {
        "/v1/orders": {"order": "resume"},
        "/v1/enrolments": {"count": 1},
        "/v1/rounds": {"phase": 1, "attempt": 1, "played": 1},
        "/v1/clients": {"token": hashed("another")},
        "/v1/tasks": {"pseudonym": live.member.pseudonym},
        COLLECTION: {"study": "0" * 64, "terms": "{}", "signature": "", "plan": "{}", "members": []},
        f"{COLLECTION}/sums": {"without": []},
    }
    return {"json": bodies[path]} if path in bodies else {}


def test_every_endpoint_of_the_coordinator_with_every_secret(coordinator: Live) -> None:
    _check_table(coordinator, COORDINATOR)


def test_every_endpoint_of_the_shuffler_with_every_secret(shuffler: Live) -> None:
    _check_table(shuffler, SHUFFLER)


def _check_table(live: Live, table: dict[tuple[str, str], tuple[int, ...]]) -> None:
    described = live.http.get("/openapi.json").json()["paths"]
    for (method, path), expected in table.items():
        options = _body(live, path) if method != "GET" else {}
        statuses = tuple(live.call(who, method, path, **options).status_code for who in WHO)
        assert statuses == expected, (method, path)
    covered = {
        (method, path.replace("phases/1/attempts/1", "phases/{phase}/attempts/{attempt}"))
        for method, path in table
    }
    always = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/openapi.json")}
    assert covered | always == {(m.upper(), path) for path, methods in described.items() for m in methods}


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "error"),
    [
        ("GET", "/nowhere", {}, 404, "not-found"),
        ("GET", "/v1/study/", {}, 404, "not-found"),
        ("DELETE", "/v1/study", {}, 405, "wrong-method"),
        ("POST", "/v1/clients", {"content": b"{"}, 422, "unreadable"),
        ("POST", "/v1/clients", {"content": b"[" * 3000}, 422, "unreadable"),
        ("POST", "/v1/clients", {"content": b'{"token": "\xff"}'}, 422, "unreadable"),
        ("POST", "/v1/clients", {"json": {"token": "short"}}, 422, "unreadable"),
        ("POST", "/v1/clients", {"json": {"token": "a" * 64, "more": 1}}, 422, "unreadable"),
        ("POST", "/v1/clients", {"content": b"x" * 5000}, 413, "too-large"),
        ("POST", "/v1/phases/9/attempts/1/reports", {"content": b"x"}, 401, "unknown-credential"),
        ("POST", "/v1/phases/1e3/attempts/1/reports", {"content": b"x"}, 404, "not-found"),
        ("POST", "/v1/phases/99999999999/attempts/1/reports", {"content": b"x"}, 404, "not-found"),
    ],
)
def test_bad_requests_are_refused_in_json(
    coordinator: Live, method: str, path: str, options: dict[str, Any], status: int, error: str
) -> None:
    reply = coordinator.call("enrolment", method, path, **options)
    assert (reply.status_code, reply.json()["error"]) == (status, error)
    assert "Traceback" not in reply.text


SLOW = Limits(burst=5, requests_per_second=1e-6)


def test_a_caller_that_is_too_fast_must_wait() -> None:
    with _coordinator(SLOW) as live:
        options = {"json": {"pseudonym": live.member.pseudonym}}
        replies = [live.call("client", "POST", "/v1/tasks", **options) for _ in range(7)]
        assert [reply.status_code for reply in replies] == [200] * 5 + [429] * 2
        assert replies[-1].headers["Retry-After"] == "1"
        assert {live.call("operator", "GET", "/v1/status").status_code for _ in range(10)} == {200}


def test_failed_attempts_are_limited_by_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.service.shared._refusing._PAUSE", 0.02)
    monkeypatch.setattr(Rates, "calm", lambda _rates: True)  # too many of all addresses would end connections
    with _coordinator(SLOW) as live, httpx.Client(base_url=live.http.base_url) as other:
        assert live.call("operator", "GET", "/v1/status").status_code == 200
        strangers = [{"Authorization": f"Bearer {new_secret()}"} for _ in range(11)]
        replies = [other.get("/v1/status", headers=one).status_code for one in strangers]
        assert replies == [401] * 10 + [429]
        assert live.call("operator", "GET", "/v1/status").status_code == 200  # on a connection it had before


def test_enrolling_again_is_answered_the_same_and_another_token_refused(coordinator: Live) -> None:
    body = {"json": {"token": hashed("mine")}}
    replies = [coordinator.call("enrolment", "POST", "/v1/clients", **body) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 200]
    assert replies[0].content == replies[1].content
    other = coordinator.call("enrolment", "POST", "/v1/clients", json={"token": hashed("other")})
    assert (other.status_code, other.json()["error"]) == (409, "already-enrolled")


def test_a_role_may_have_two_tokens_while_one_replaces_the_other() -> None:
    old, new = new_secret(), new_secret()
    roles = RoleTokens(hashes={"operator": [hashed(old), hashed(new)], "actuator": hashed("another")})
    assert {roles.by_hash()[hashed(one)] for one in (old, new)} == {"operator"}
    with pytest.raises(InvalidValue, match="64 hexadecimal digits"):
        RoleTokens(hashes={"operator": [hashed(old), "short"]})


def test_an_expired_code_has_its_own_error(coordinator: Live) -> None:
    made = coordinator.call("operator", "POST", "/v1/enrolments", json={"count": 1, "valid_seconds": 60})
    (code,) = made.json()["codes"]
    coordinator.deployed.clock.time += 61
    headers = {"Authorization": f"Bearer {code}"}
    reply = coordinator.http.post("/v1/clients", json={"token": hashed("late")}, headers=headers)
    assert (reply.status_code, reply.json()["error"]) == (410, "code-expired")


def test_reports_over_http_count_once(shuffler: Live) -> None:
    body = shuffler.deployed.body(shuffler.member)
    other = shuffler.deployed.body(shuffler.member)
    replies = [shuffler.call("ticket", "POST", REPORTS, content=body) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [204, 204]
    assert replies[0].content == replies[1].content
    assert shuffler.call("ticket", "POST", REPORTS, content=other).status_code == 409
    assert shuffler.call("coordinator", "POST", f"{COLLECTION}/close").json()["state"] == "failed"
    assert shuffler.call("ticket", "POST", REPORTS, content=body).status_code == 204
    again = shuffler.call("coordinator", "POST", f"{COLLECTION}/close").json()
    assert (again["state"], again["sums"]) == ("failed", None)


def test_a_mistake_of_ours_is_told_without_a_traceback(
    coordinator: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("a-secret-in-a-message")

    monkeypatch.setattr(coordinator.deployed.coordinator.operator, "about", broken)
    reply = coordinator.http.get("/v1/study")
    assert (reply.status_code, reply.json()["error"]) == (500, "failure")
    assert "a-secret" not in reply.text + caplog.text


def test_a_large_report_is_told_to_try_again_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def away(*_arguments: object, **_named: object) -> None:
        raise StorageError("storage: the disk is full")

    with _coordinator(Limits()) as live:
        with live.deployed.store.transaction() as transaction:
            monkeypatch.setattr(type(transaction), "entry_of", away)
        reply = live.call("ticket", "POST", REPORTS, content=bytes(70_000))
        assert (reply.status_code, reply.json()["error"]) == (503, "unavailable")
    (told,) = (one for one in caplog.records if one.message == "storage")
    assert (told.levelname, told.__dict__["told"]) == ("WARNING", "storage: the disk is full")
    assert live.member.ticket not in str(told.__dict__)


def test_a_made_up_phase_reads_no_plan(coordinator: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def plans(_transaction: object) -> None:
        raise AssertionError("all plans were read for a phase that has not begun")

    with coordinator.deployed.store.transaction() as transaction:
        monkeypatch.setattr(type(transaction), "plans", plans)
    reply = coordinator.call("ticket", "POST", "/v1/phases/9/attempts/1/reports", content=b"x")
    assert (reply.status_code, reply.json()["error"]) == (404, "not-found")


def test_an_expired_code_is_in_the_description(coordinator: Live) -> None:
    described = coordinator.http.get("/openapi.json").json()
    assert "410" in described["paths"]["/v1/clients"]["post"]["responses"]


def test_metrics_name_no_client(coordinator: Live) -> None:
    text = coordinator.call("operator", "GET", "/metrics").text
    assert "dpbandits_requests_total" in text
    assert coordinator.member.pseudonym not in text


def test_the_descriptions_are_json_of_version_3_1(coordinator: Live) -> None:
    described = coordinator.http.get("/openapi.json")
    assert json.loads(described.content)["openapi"] == "3.1.0"
    operations = [one for methods in described.json()["paths"].values() for one in methods.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)
