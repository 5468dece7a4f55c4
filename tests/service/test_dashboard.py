"""The dashboard without a browser: sessions, forms, headers, content in each trust model, page size."""

from __future__ import annotations

import contextlib
import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from dpbandits.errors import PlanMismatch, StorageError
from dpbandits.options import Options
from dpbandits.service.dashboard import _snapshot as snapshot_module, add_dashboard
from dpbandits.service.dashboard._sessions import COOKIE, SECONDS, Sessions
from dpbandits.service.dashboard._views import VIEWS
from dpbandits.service.shared import Limits, Rates, RoleTokens
from dpbandits.service.wire import KeyPair, hashed, new_secret

from .derived import check_derived
from .helpers import MODELS, Deployment, client_averages, small_study
from .live import served

TOKENS = {"operator": new_secret(), "reader": new_secret(), "actuator": new_secret()}
ROLES = RoleTokens(hashes={role: hashed(token) for role, token in TOKENS.items()})
STATIC = Path(add_dashboard.__code__.co_filename).parent / "static"
OPTIONS = Options.grid(tilt=list(range(1, 10)), scheduler=["fair", "<b>bold</b>"])


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_FRESH", 0.0)
    monkeypatch.setattr(snapshot_module, "_SHARE", 0)


def _app(deployed: Deployment, limits: Limits | None = None) -> Starlette:
    """The dashboard alone, without the driver: the tests advance the study themselves."""
    app = Starlette()
    app.state.driver = SimpleNamespace(trouble="", poke=lambda: None)
    rates = None if limits is None else Rates(limits)
    assert add_dashboard(app, deployed.coordinator, ROLES, rates=rates)
    return app


@contextlib.contextmanager
def _client(app: Any, others: int = 0) -> Iterator[Any]:
    """One browser, or a list of several."""
    with served(app) as url, contextlib.ExitStack() as ends:
        found = [ends.enter_context(httpx.Client(base_url=url)) for _ in range(others + 1)]
        yield found if others else found[0]


@pytest.fixture
def deployed() -> Iterator[Deployment]:
    made = Deployment(small_study("none"), None)
    made.advance()
    yield made
    made.close()


def _opened(client: httpx.Client, role: str = "reader") -> httpx.Client:
    if role == "reader":
        reply = client.get("/dashboard/open", params={"token": TOKENS["reader"]})
    else:
        reply = client.post("/dashboard/login", data={"token": TOKENS[role]})
    assert (reply.status_code, reply.headers["location"]) == (303, "overview")
    kept = reply.headers["set-cookie"].lower()
    assert "httponly" in kept
    assert "path=" not in kept  # the folder of the page, under any prefix
    return client


def _settled(client: httpx.Client) -> httpx.Client:
    """Wait until the thread that analyses the first phase has finished, so that pages change no more."""
    until = time.monotonic() + 60
    while "predicted for the end" not in client.get("/dashboard/time").text:
        assert time.monotonic() < until
        time.sleep(0.05)
    return client


def _csrf(client: httpx.Client) -> str:
    found = re.search(r'name="csrf" value="([0-9a-f]{64})"', client.get("/dashboard/overview").text)
    assert found is not None
    return found[1]


def test_pages_need_a_session_and_the_link_begins_one(deployed: Deployment) -> None:
    with _client(_app(deployed)) as client:
        assert client.get("/dashboard").headers["location"] == "dashboard/overview"
        assert client.get("/dashboard/").headers["location"] == "overview"
        for view in VIEWS:
            assert client.get(f"/dashboard/{view}").headers["location"] == "login"
        for token in ("", "x" * 43, TOKENS["actuator"]):
            assert client.get("/dashboard/open", params={"token": token}).status_code == 401
        for token in (TOKENS["reader"], TOKENS["actuator"], "x"):
            assert client.post("/dashboard/login", data={"token": token}).status_code == 401
        _opened(client)
        for view, (title, _) in VIEWS.items():
            reply = client.get(f"/dashboard/{view}")
            assert reply.status_code == 200
            assert f"<h1>{title}</h1>" in reply.text
        assert client.get("/dashboard/nothing").status_code == 404
        assert TOKENS["reader"] not in client.get("/dashboard/overview").text
        behind = {"headers": {"x-forwarded-proto": "https"}, "params": {"token": TOKENS["reader"]}}
        assert "; Secure" in client.get("/dashboard/open", **behind).headers["set-cookie"]


def test_an_address_that_sends_wrong_tokens_is_refused_for_a_while(deployed: Deployment) -> None:
    with _client(_app(deployed, Limits(burst=2, requests_per_second=1e-3))) as client:
        _opened(client)  # right tokens take nothing
        wrong = {"token": "x" * 43}
        tried = [client.get("/dashboard/open", params=wrong), client.post("/dashboard/login", data=wrong)]
        tried += [client.post("/dashboard/login", data=wrong) for _ in range(4)]
        assert [reply.status_code for reply in tried] == [401, 401, 401, 429, 429, 429]
        assert tried[-1].headers["retry-after"] == "5"
        # The token is not even looked at, so that guessing goes no faster. Sessions go on.
        assert client.post("/dashboard/login", data={"token": TOKENS["operator"]}).status_code == 429
        assert client.get("/dashboard/overview").status_code == 200


def test_a_forged_or_expired_session_is_refused(deployed: Deployment) -> None:
    own, now = deployed.keys, time.time()
    others = RoleTokens(hashes={**ROLES.hashes, "operator": hashed("another")})
    begun = Sessions(own, ROLES).begin(TOKENS["operator"])
    assert begun is not None
    good = begun[1]
    old = Sessions(own, ROLES, lambda: now - SECONDS["operator"] - 5).begin(TOKENS["operator"])
    stolen = Sessions(KeyPair.new(), ROLES).begin(TOKENS["operator"])
    rotated = Sessions(own, others).begin("another")
    reader = Sessions(own, ROLES).begin(TOKENS["reader"])
    assert all((old, stolen, rotated, reader))
    promoted = good.split(".")[0] + "." + (reader or begun)[1].split(".")[1]
    with _client(_app(deployed)) as client:
        made = [one[1] for one in (old, stolen, rotated) if one is not None]
        for cookie in (*made, promoted, good[:-1], good[:-1] + "\xe9", "x", ".", ""):
            header = {"cookie": f"{COOKIE}={cookie}".encode("latin-1")}
            assert client.get("/dashboard/overview", headers=header).status_code in (303, 401)
            assert client.post("/dashboard/order", data={"order": "pause"}, headers=header).status_code == 401
        assert client.get("/dashboard/overview", headers={"cookie": f"{COOKIE}={good}"}).status_code == 200
    assert deployed.run(lambda t: t.orders()) == ()


def test_only_the_operators_own_form_gives_orders(deployed: Deployment) -> None:
    def given(client: httpx.Client, **form: str) -> int:
        return client.post("/dashboard/order", data=form).status_code

    with _client(_app(deployed), others=2) as (reader, operator, another):
        _opened(reader)
        _opened(operator, "operator")
        assert 'action="order"' not in reader.get("/dashboard/overview").text
        csrf = _csrf(operator)
        assert given(reader, order="pause", csrf=csrf) == 403
        for wrong in ("", "0" * 64, _csrf(_opened(another, "operator"))):
            assert given(operator, order="pause", csrf=wrong) == 403
        foreign = {"sec-fetch-site": "cross-site"}
        form = {"order": "pause", "csrf": csrf}
        assert operator.post("/dashboard/order", data=form, headers=foreign).status_code == 403
        assert (
            operator.post("/dashboard/login", data={"token": TOKENS["operator"]}, headers=foreign).status_code
            == 403
        )
        assert given(operator, order="stop", csrf=csrf) == 422
        assert given(operator, order="close", csrf=csrf) == 422  # the box was not ticked
        assert deployed.run(lambda t: t.orders()) == ()
        assert given(operator, order="pause", csrf=csrf) == 303
        assert "The operator has paused the study" in reader.get("/dashboard/overview").text
        assert given(operator, order="resume", csrf=csrf) == 303
        assert given(operator, order="close", csrf=csrf, sure="yes") == 303
        assert given(operator, order="resume", csrf=csrf) == 409
        assert operator.post("/dashboard/logout", data={"csrf": csrf}).headers["location"] == "login"
        assert COOKIE not in operator.cookies


def test_no_page_has_an_inline_script_or_style_or_an_address_of_another_host(deployed: Deployment) -> None:
    with _client(_app(deployed)) as client:
        pages = [client.get("/dashboard/login"), client.get("/dashboard/nothing")]
        _opened(client, "operator")
        pages += [client.get(f"/dashboard/{view}") for view in VIEWS]
        for page in pages:
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert page.headers["referrer-policy"] == "no-referrer"
            assert page.headers["cache-control"] == "no-store"
            assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=)|javascript:", page.text)
            addresses = re.findall(r'(?:href|src|action|hx-get)="([^"]*)"', page.text)
            assert len(addresses) > 2
            for address in addresses:
                assert not re.match(r"/|\w+:(?!,)", address.replace("data:,", "")), address


def test_the_dashboard_works_under_a_prefix(deployed: Deployment) -> None:
    app = _app(deployed)

    class Proxied:
        state = app.state

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                assert scope["path"].startswith("/a/b/")
                scope = {**scope, "path": scope["path"].removeprefix("/a/b"), "raw_path": b""}
            await app(scope, receive, send)

    with _client(Proxied()) as client:
        client.follow_redirects = True
        page = client.get("/a/b/dashboard/open", params={"token": TOKENS["reader"]})
        assert page.url.path == "/a/b/dashboard/overview"
        for address in re.findall(r'(?:href|src|hx-get)="([^"#:]+)"', page.text):
            reply = client.get(page.url.join(address))
            assert reply.status_code == 200, address


def test_a_page_that_has_not_changed_is_not_sent_again(deployed: Deployment) -> None:
    with _client(_app(deployed)) as client:
        _settled(_opened(client))
        version = re.findall(r'data-version="(\w+)"', client.get("/dashboard/overview").text)[0]
        same = {"headers": {"HX-Request": "true"}, "params": {"v": version}}
        assert client.get("/dashboard/overview", **same).status_code == 204
        deployed.task(deployed.enrolled(1)[0])
        reply = client.get("/dashboard/overview", **same)
        assert reply.status_code == 200
        assert reply.text.startswith('<div id="live"')
        assert '<dd data-api="status.joined">1</dd>' in reply.text


def test_options_are_searched_filtered_paged_and_compared_by_the_address(deployed: Deployment) -> None:
    study = small_study("none", actions=OPTIONS.actions, options=OPTIONS.digest)
    named = Deployment(study, None, options=OPTIONS)
    named.whole_study()
    with _client(_app(named)) as client:
        _opened(client)
        until = time.monotonic() + 30
        while "being computed" in client.get("/dashboard/options").text and time.monotonic() < until:
            time.sleep(0.05)
        whole = client.get("/dashboard/options").text
        assert '<h2 id="all">18 options</h2>' in whole
        assert "<b>bold" not in whole  # names are escaped
        found = client.get("/dashboard/options", params={"q": "TILT=2, s", "c": ["0", "17", "99", "x"]}).text
        assert "2 options" in found
        assert found.count('aria-label="Remove ') == 2
        left = client.get("/dashboard/options", params={"show": "left"}).text
        dropped = client.get("/dashboard/options", params={"show": "dropped"}).text
        status = named.run(named.coordinator.operator.status)
        assert left.count("<tr") - 1 - left.count('<th scope="col">term') >= status.actions_left
        gone = len(re.findall(r"dropped in phase \d", dropped))
        assert gone == 18 - status.actions_left
        assert gone > 0
        assert client.get("/dashboard/options", params={"page": "9" * 30, "q": "\x00'<"}).status_code == 200
    named.close()


def test_options_without_names_are_searched_by_any_text(deployed: Deployment) -> None:
    with _client(_app(deployed)) as client:
        _opened(client)
        for text in ("action 1", "²", "9" * 30):
            assert client.get("/dashboard/options", params={"q": text}).status_code == 200


@pytest.mark.parametrize(("trust", "mode"), MODELS)
def test_nothing_about_a_single_client_is_served(trust: str, mode: str | None) -> None:
    """Read every byte of every page in every state; in the shuffle model no page changes with a report."""
    deployed, told, secrets = Deployment(small_study(trust), mode), bytearray(), set[bytes]()
    deployed.advance()
    with _client(_app(deployed)) as client:
        _settled(_opened(client, "operator"))

        def look() -> str:
            pages = [client.get(f"/dashboard/{view}") for view in VIEWS]
            for page in pages:
                told.extend(page.content + repr(page.headers).encode())
            return pages[0].text

        look()
        members = deployed.join(6)
        look()
        plan = deployed.coordinator.rounds.plan(1)
        deployed.play()
        size = len(deployed.body(members[0]))
        first = look()
        for member in members[:3]:
            deployed.send(member, deployed.body(member))
        second = look()
        assert (first == second) == (mode is not None)  # only the shuffler knows how many have reported
        deployed.report(members[3:])
        for member in members:
            numbers = client_averages(deployed.study.actions, plan, member.pseudonym)
            secrets |= {f"{one:.{digits}g}".encode() for one in numbers for digits in (6, 9, 17)}
            texts = (member.token, member.ticket, member.pseudonym, hashed(member.token))
            secrets |= {text.encode() for text in texts} | {text[:16].encode() for text in texts}
        look()
        assert re.search(r"<dd>only the shuffler knows</dd>", first) is not None or mode is None
        assert _compare_derived(client, deployed, size, curves=mode == "split") > 6
    for secret in [*secrets, b"127.0.0.1", TOKENS["operator"].encode()]:
        assert secret not in told, secret
    assert deployed.study.name[:12].encode() in told  # what is served can be found
    assert b"1000.0" not in told  # the time of the test's clock, at which everything arrived
    deployed.close()


def _compare_derived(client: httpx.Client, deployed: Deployment, size: int, *, curves: bool) -> int:
    """Compare what the pages derive from the API with the API, after the first release."""
    operator = deployed.coordinator.operator
    replies: dict[str, Any] = {
        "status": deployed.run(operator.status),
        "progress": deployed.run(operator.progress),
    }
    if curves:
        replies["results"] = operator.results_of(deployed.run(operator.journalled))
    until = time.monotonic() + 60
    while curves and "data-chart" not in client.get("/dashboard/privacy").text:
        assert time.monotonic() < until  # the curves are computed in a thread of their own
        time.sleep(0.05)
    api = {name: msgspec.json.decode(msgspec.json.encode(reply)) for name, reply in replies.items()}
    pages = {view: client.get(f"/dashboard/{view}").text for view in ("time", "privacy")}
    return check_derived(pages, api, {1: size})


def test_every_page_weighs_at_most_150_kilobytes(deployed: Deployment) -> None:
    deployed.whole_study()
    with _client(_app(deployed)) as client:
        _opened(client)
        for view in VIEWS:
            page = client.get(f"/dashboard/{view}")
            names = re.findall(r'(?:href|src)="static/([^"]+)"', page.text)
            parts = [page.content, *((STATIC / name).read_bytes() for name in names)]
            assert sum(len(gzip.compress(part)) for part in parts) <= 150_000
            assert len(names) >= 3
        reply = client.get("/dashboard/static/htmx.min.js")
        assert reply.headers["content-encoding"] == "gzip"
        again = client.get("/dashboard/static/htmx.min.js", headers={"if-none-match": reply.headers["etag"]})
        assert again.status_code == 304
        for name in ("htmx.LICENSE.txt", "uPlot.LICENSE.txt"):
            assert client.get(f"/dashboard/static/{name}").status_code == 200
        assert client.get("/dashboard/static/..%2f_app.py").status_code == 404


@pytest.mark.parametrize(("error", "status"), [(StorageError("secret"), 503), (ValueError("secret"), 500)])
def test_an_error_is_a_page_without_details(
    error: Exception, status: int, deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: Any, **_options: Any) -> None:
        raise error

    monkeypatch.setattr(deployed.coordinator.writer, "run_async", fail)
    with _client(_app(deployed)) as client:
        reply = _opened(client).get("/dashboard/overview")
        assert reply.status_code == status
        assert "secret" not in reply.text
        assert "content-security-policy" in reply.headers


def test_an_error_on_purpose_is_not_blamed_on_the_store(
    deployed: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_arguments: Any, **_options: Any) -> None:
        raise PlanMismatch("a journalled plan differs <b>")

    monkeypatch.setattr(deployed.coordinator.writer, "run_async", fail)
    with _client(_app(deployed)) as client:
        reply = _opened(client).get("/dashboard/overview")
        assert reply.status_code == 500
        assert "The store" not in reply.text
        assert "This page cannot be shown: a journalled plan differs &lt;b&gt;." in reply.text


def test_without_a_token_for_it_there_is_no_dashboard(deployed: Deployment) -> None:
    assert not add_dashboard(
        Starlette(), deployed.coordinator, RoleTokens(hashes={"actuator": hashed("x" * 20)})
    )
