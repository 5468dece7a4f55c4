"""The dashboard in a real Chromium, through a study of real processes: `dpbandits demo` with few phones.

It needs Debian's Chromium. `make test` installs it where it may; without it these tests are skipped.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("playwright.sync_api", reason="no playwright: pip install '.[dev]'")
import axe_playwright_python
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from dpbandits.cli import main
from dpbandits.service.dashboard._sessions import COOKIE, SECONDS, Sessions
from dpbandits.service.dashboard._views import VIEWS
from dpbandits.service.shared import RoleTokens
from dpbandits.service.wire import KeyPair, hashed

from .derived import check_derived
from .processes import ENVIRONMENT

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium: as root, apt-get install chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
FLAGS += ["--disable-component-update", "--disable-sync"]
AXE = Path(axe_playwright_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
REFUSED = """() => { window.refused = [];
  document.addEventListener("securitypolicyviolation", (event) =>
  window.refused.push(event.violatedDirective)); }"""


@dataclass
class Demo:
    """A demonstration: its folder, the link for readers, and what the browser complained about."""

    folder: Path
    link: str
    browser: Browser
    complaints: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return self.link.split("/dashboard")[0]

    def api(self, name: str) -> Any:
        token = (self.folder / "operator.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        reply = httpx.get(f"{self.host}/v1/{name}", headers=headers, verify=False, timeout=30)
        return reply.json()

    def context(self) -> BrowserContext:
        context = self.browser.new_context(ignore_https_errors=True)
        context.add_init_script(f"({REFUSED})()")
        return context

    def page(self, context: BrowserContext | None = None) -> Page:
        page = (context or self.context()).new_page()
        page.on("console", lambda said: self._complain(said.type in ("error", "warning"), said.text))
        page.on("pageerror", lambda error: self._complain(True, str(error)))
        page.on(
            "request", lambda sent: self._complain(not sent.url.startswith((self.host, "data:")), sent.url)
        )
        return page

    def _complain(self, bad: bool, text: str) -> None:
        if bad:
            self.complaints.append(text)

    def reading(self) -> Page:
        page = self.page()
        page.goto(self.link)
        assert page.url == f"{self.host}/dashboard/overview"  # the token has left the address
        return page

    def operating(self) -> Page:
        page = self.page()
        page.goto(f"{self.host}/dashboard/login")
        page.get_by_label("Operator's token").fill((self.folder / "operator.token").read_text().strip())
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
        return page


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Demo]:
    """Run a demonstration, and check that it leaves no process behind."""
    words = ["demo", "--clients", "40", "--report-seconds", "4", "--keep", str(folder), "--stay"]
    process = subprocess.Popen(
        [sys.executable, "-m", "dpbandits.cli", *words], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        link = next(line.split()[-1] for line in process.stdout if line.startswith("dashboard"))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            yield Demo(folder=folder, link=link, browser=browser)
            browser.close()
    finally:
        process.terminate()
        assert process.wait(60) == 130  # as after Ctrl-C
        process.stdout.close()
    left = subprocess.run(["pgrep", "-f", str(folder)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


def test_the_dashboard_in_a_browser(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One test, because each process that runs tests would start the whole study again."""
    with running(tmp_path / "demo") as demo:
        _follow_a_study(demo)
        _check_accessibility(demo)
        _check_keyboard_and_phone(demo)
        _check_report(demo, capsys)
        _check_refused_sessions(demo)


def _follow_a_study(demo: Demo) -> None:
    reader, operator = demo.reading(), demo.operating()
    phase = reader.locator("[data-api='status.phase']")
    expect(reader.get_by_role("button", name="Pause")).to_have_count(0)
    began = phase.inner_text()
    operator.get_by_role("button", name="Pause").click()
    expect(operator.get_by_role("button", name="Resume")).to_be_visible()
    assert demo.api("status")["standing"] == "paused"
    expect(reader.locator(".pill")).to_have_text("paused", timeout=15_000)  # without loading the page again
    operator.get_by_role("button", name="Resume").click()
    expect(operator.get_by_role("button", name="Pause")).to_be_visible()
    assert demo.api("status")["standing"] == "running"
    expect(reader.locator(".pill")).to_have_text("ended", timeout=240_000)
    assert int(phase.inner_text()) > int(began)
    answer = demo.api("results")["answer"]  # the page has it after an analysis in a thread of its own
    for name in ("option", "estimate", "low", "high"):
        shown = answer[name] if name == "option" else _number(answer[name])
        expect(reader.locator(f"[data-api='results.answer.{name}']")).to_have_text(shown, timeout=60_000)
    _check_numbers(demo, reader)
    assert demo.complaints == []
    assert reader.evaluate("window.refused") == []


def _check_numbers(demo: Demo, page: Page) -> None:
    """Compare every number of the pages with the API."""
    found = {"status": demo.api("status"), "results": demo.api("results")}
    page.goto(f"{demo.host}/dashboard/overview")
    shown = page.locator("[data-api]").evaluate_all(
        "all => all.map(one => [one.dataset.api, one.textContent])"
    )
    assert len(shown) >= 10
    for path, text in shown:
        value: Any = found
        for part in path.split("."):
            value = value[part]
        assert text == (value if isinstance(value, str) else _number(value)), path
    page.goto(f"{demo.host}/dashboard/options")
    options = {one["action"]: one for one in found["results"]["answer"]["options"]}
    rows = page.locator("tr[data-action]")
    assert rows.count() == 50
    for row in rows.element_handles():
        known = options.get(int(row.get_attribute("data-action") or ""))
        for cell in row.query_selector_all("[data-field]") if known else ():
            assert cell.inner_text() == f"{known[cell.get_attribute('data-field')]:.4g}"
    page.goto(f"{demo.host}/dashboard/time")
    for record in demo.api("progress")["phases"]:
        row = page.locator(f"tr[data-phase='{record['phase']}']")
        for name in ("actions_left", "reports", "cohort", "rounds_played") if record["cohort"] else ():
            expect(row.locator(f"[data-field='{name}']")).to_have_text(f"{record[name]:,}")
    found["progress"] = demo.api("progress")
    pages = {view: page.request.get(f"{demo.host}/dashboard/{view}").text() for view in ("time", "privacy")}
    assert check_derived(pages, found) > 20
    expect(page.locator(".u-wrap")).to_have_count(3)  # the charts are drawn


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _check_accessibility(demo: Demo) -> None:
    def serious(view: str, only: str = "undefined") -> list[Any]:
        page.goto(f"{demo.host}/dashboard/{view}")
        page.evaluate(AXE)
        found = page.evaluate(f"axe.run(document, {{runOnly: {only}}})")
        assert len(found["passes"]) > 0
        return [one for one in found["violations"] if one["impact"] in ("serious", "critical")]

    page = demo.reading()
    for view in (*VIEWS, "options?c=1&c=2&q=fair", "login"):
        assert serious(view) == [], view
    page.emulate_media(color_scheme="dark")  # only the colours differ
    for view in ("overview", "options", "health"):
        assert serious(view, "['color-contrast']") == [], view
    assert demo.complaints == []
    page.evaluate("document.querySelector('main').innerHTML = '<input><p class=soft style=>x</p>'")
    assert any(one["id"] == "label" for one in page.evaluate("axe.run()")["violations"])


def _check_refused_sessions(demo: Demo) -> None:
    keys = KeyPair.load(demo.folder / "coordinator.pem")
    tokens = {role: (demo.folder / f"{role}.token").read_text().strip() for role in ("operator", "reader")}
    roles = RoleTokens(hashes={role: hashed(token) for role, token in tokens.items()})
    past = Sessions(keys, roles, lambda: time.time() - SECONDS["reader"] - 5).begin(tokens["reader"])
    valid = Sessions(keys, roles).begin(tokens["reader"])
    assert past is not None
    assert valid is not None
    page = demo.reading()
    (cookie,) = [one for one in page.context.cookies() if one["name"] == COOKIE]
    assert cookie["httpOnly"]
    assert cookie["secure"]
    value = cookie["value"]
    _give(page, {**cookie, "value": valid[1]})  # what is made here is accepted, if it is not over
    reply = page.goto(f"{demo.host}/dashboard/overview")
    assert reply is not None
    assert reply.status == 200
    for refused in (value[:-1] + ("0" if value[-1] != "0" else "1"), past[1]):
        page = demo.reading()
        _give(page, {**cookie, "value": refused})
        _check_refused(demo, page)


def _give(page: Page, cookie: Any) -> None:
    page.context.add_cookies([cookie])


def _check_refused(demo: Demo, page: Page) -> None:
    expect(page.locator("#lost")).to_have_text("The session has ended. Open the link again.", timeout=15_000)
    reply = page.goto(f"{demo.host}/dashboard/overview")
    assert reply is not None
    assert reply.status == 401


def _check_keyboard_and_phone(demo: Demo) -> None:
    page = demo.reading()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/options")
    page.set_viewport_size({"width": 360, "height": 740})
    for view in VIEWS:
        page.goto(f"{demo.host}/dashboard/{view}")
        wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wide <= 0, view  # tables and figures scroll on their own


def _check_report(demo: Demo, capsys: pytest.CaptureFixture[str]) -> None:
    until = time.monotonic() + 60
    while not (demo.folder / "study.html").is_file() and time.monotonic() < until:
        time.sleep(0.2)
    keys = list[str]()
    for party in ("coordinator", "shuffler"):
        assert main(["keys", "public", str(demo.folder / f"{party}.pem")]) == 0
        keys.append(f"{party}={capsys.readouterr().out.split()[-1]}")
    assert main(["verify", str(demo.folder / "study.html"), "--keys", *keys]) == 0
    shown = capsys.readouterr().out
    assert "the shuffler signed a statement" in shown
    assert not re.search(r"not verified: that .* key", shown)
