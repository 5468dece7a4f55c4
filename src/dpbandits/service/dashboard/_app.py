"""The HTTP side of the dashboard: an application that is mounted at /dashboard.

- All addresses in the pages are relative, so the dashboard works behind a reverse proxy under any prefix.
- A page needs a session. `open?token=…` exchanges the token of a reader or of the operator for a cookie, and
  `login` accepts only the operator's token. Nothing else in a request gives access.
- An address may send 20 wrong tokens, and one more each second. After that, its requests are refused before
  their tokens are compared. These limits are separate from those of the API: behind a proxy all callers have
  one address, and wrong tokens must not use up the limit of the clients.
- The Content-Security-Policy allows only scripts, styles and connections of this host, and nothing inline.
- An open page asks every five seconds whether something has changed, and less often if many pages are open.
  The reply is empty if nothing has changed. Otherwise the new content is rendered once for all readers.
"""

from __future__ import annotations

import json
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route

from dpbandits.errors import DpbanditsError, Refused, StorageError
from dpbandits.service.coordinator import Coordinator
from dpbandits.service.dashboard._pace import PagePace
from dpbandits.service.dashboard._sessions import COOKIE, SECONDS, Login, Sessions
from dpbandits.service.dashboard._snapshot import Snapshot, Snapshots
from dpbandits.service.dashboard._static import Static
from dpbandits.service.dashboard._views import VIEWS
from dpbandits.service.reporting import environment
from dpbandits.service.shared import PROVEN, Limits, Rates, RoleTokens

log = logging.getLogger("dpbandits.service")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Handler = Callable[[Request], Awaitable[Response]]

_RENDERED = 64  # rendered pages that are kept
_LARGEST_FORM = 4096
_WRONG_TOKENS = Limits(burst=10, requests_per_second=1)  # `Rates` gives an address twice the burst


def add_dashboard(
    app: Starlette, coordinator: Coordinator, roles: RoleTokens, *, rates: Rates | None = None
) -> bool:
    """Serve the dashboard of a coordinator at /dashboard, if a role that may see it has a token.

    Args:
        app: The application of the coordinator, from `coordinator_app`.
        coordinator: The coordinator.
        roles: The hashed tokens of the roles; `reader` and `operator` may see the dashboard.
        rates: The limits on wrong tokens. None has the limits above; tests pass their own.

    Returns:
        Whether the dashboard is served.
    """
    sessions = Sessions(coordinator.context.keys, roles)
    if not sessions.roles:
        return False
    state = app.state
    limits = rates or Rates(_WRONG_TOKENS)
    pages = Pages(coordinator, sessions, limits, lambda: str(state.driver.trouble), state.driver.poke)
    app.router.routes.append(Route("/dashboard", pages.enter))
    app.router.routes.append(Mount("/dashboard", routes=pages.routes()))
    return True


class Pages:
    """The request handlers."""

    def __init__(
        self, coordinator: Coordinator, sessions: Sessions, rates: Rates, trouble: Any, poke: Any
    ) -> None:
        self._coordinator = coordinator
        self._sessions = sessions
        self._rates = rates
        self._poke = poke
        self._snapshots = Snapshots(coordinator, trouble)
        self._pace = PagePace()
        self._templates = environment(Path(__file__).parent / "templates")
        self._templates.filters["json"] = lambda value: json.dumps(value, allow_nan=False)
        self._static = Static.load(Path(__file__).parent / "static")
        self._rendered: OrderedDict[tuple[Any, ...], bytes] = OrderedDict()

    def routes(self) -> list[Route]:
        """Return the routes below /dashboard."""
        get, post = ["GET"], ["POST"]
        handlers = [
            ("/", self.home, get),
            ("/open", self.open, get),
            ("/login", self.login, get + post),
            ("/logout", self.logout, post),
            ("/order", self.order, post),
            ("/static/{name}", self._static.serve, get),
            ("/{view}", self.view, get),
        ]
        return [Route(path, self._guarded(handler), methods=methods) for path, handler, methods in handlers]

    def _guarded(self, handler: Handler) -> Handler:
        """Return a handler that replies with a page after every error, and never with a traceback."""

        async def guarded(request: Request) -> Response:
            try:
                return await handler(request)
            except StorageError:
                return self._refused(503, "The store does not respond. Try again later.")
            except DpbanditsError as error:  # its text names what is wrong, and has no reward or token
                extra = {"route": "/dashboard", "kind": type(error).__name__, "told": str(error)}
                log.error("failure", extra=extra)
                return self._refused(500, f"This page cannot be shown: {error}.")
            except Exception as error:  # log its type, but not its text, which may have private data
                log.error("failure", extra={"route": "/dashboard", "kind": type(error).__name__})
                return self._refused(500, "This page cannot be shown because of an internal error.")

        return guarded

    async def enter(self, _request: Request) -> Response:
        """Redirect from /dashboard without a slash at the end to the first page."""
        return _to("dashboard/overview")

    async def home(self, _request: Request) -> Response:
        """Redirect to the first page."""
        return _to("overview")

    async def open(self, request: Request) -> Response:
        """Exchange the token in a link for a session."""
        begun = self._begun(request, request.query_params.get("token", ""), role=None)
        if begun is None:
            return self._not_begun(request, "This link is not valid.")
        return self._with_session(_to("overview"), request, *begun)

    async def login(self, request: Request) -> Response:
        """Show the form, or begin a session of the operator."""
        if request.method == "GET":
            return self._page("login.html", message="")
        form = await _form(request)
        if not _same_site(request):
            return self._page("login.html", status=403, message="The form came from another site.")
        begun = self._begun(request, form.get("token", ""), role="operator")
        if begun is None:
            return self._not_begun(request, "This is not the operator's token.")
        log.warning("login", extra={"kind": "operator"})
        return self._with_session(_to("overview"), request, *begun)

    def _begun(self, request: Request, token: str, *, role: str | None) -> tuple[Login, str] | None:
        """Begin a session, unless the address has sent too many wrong tokens."""
        self._rates.tidy()
        if not self._rates.welcome(_address(request)):
            return None
        begun = self._sessions.begin(token, role=role)
        if begun is None:
            self._rates.bad(_address(request))
        return begun

    def _not_begun(self, request: Request, message: str) -> Response:
        if self._rates.welcome(_address(request)):
            return self._page("login.html", status=401, message=message)
        waiting = "Too many wrong tokens came from your address. Wait a few seconds."
        reply = self._page("login.html", status=429, message=waiting)
        reply.headers["Retry-After"] = "5"
        return reply

    async def logout(self, request: Request) -> Response:
        """End the session in this browser."""
        session = self._session(request)
        if session is None or not self._sessions.same_form(session, (await _form(request)).get("csrf", "")):
            return self._refused(403, "This form is not valid any more.")
        reply = _to("login")
        reply.delete_cookie(COOKIE, path="")
        return reply

    async def order(self, request: Request) -> Response:
        """Pause, resume or close the study. Only the operator may do this."""
        session, form = self._session(request), await _form(request)
        if session is None or not session.operates:
            return self._refused(
                401 if session is None else 403, "Only the operator may do this. Log in first."
            )
        if not _same_site(request) or not self._sessions.same_form(session, form.get("csrf", "")):
            return self._refused(403, "This form is not valid any more. Load the page again.")
        order, coordinator = form.get("order", ""), self._coordinator
        if order not in ("pause", "resume", "close") or (order == "close" and form.get("sure") != "yes"):
            return self._refused(422, "To close the study for good, tick the box first.")
        try:
            await coordinator.writer.run_async(
                "order", lambda t: coordinator.operator.order(t, order), alone=True
            )
        except Refused as refusal:
            return self._refused(409, f"{refusal.message}.")
        log.warning("order", extra={"kind": order})
        self._poke()
        self._snapshots.forget()
        return _to("overview")

    async def view(self, request: Request) -> Response:
        """Show a page or, if its script asks, only the part that changes."""
        name, session = request.path_params["view"], self._session(request)
        if name not in VIEWS:
            return self._refused(404, "There is no such page.")
        partly = "hx-request" in request.headers
        if session is None:
            if partly or COOKIE in request.cookies:
                return self._page(
                    "login.html", status=401, message="The session has ended. Open the link again."
                )
            return _to("login")
        snapshot = await self._snapshots.read()
        query = parse_qs(request.url.query, max_num_fields=20)
        if partly:
            self._pace.polled()
        version = f"{snapshot.version}_{self._pace.seconds}"
        if query.pop("v", [""])[0] == version and partly:
            return Response(status_code=204, headers=HEADERS)
        return _html(self._render(name, query, session, snapshot, version=version, partly=partly))

    def _render(
        self,
        name: str,
        query: dict[str, list[str]],
        session: Login,
        snapshot: Snapshot,
        *,
        version: str,
        partly: bool,
    ) -> bytes:
        asked = json.dumps(query, sort_keys=True)
        who = "" if partly else self._sessions.csrf(session)  # only a whole page has forms
        key = (name, asked, who, version)
        if key not in self._rendered:
            title, values = VIEWS[name]
            shown = {"address": name, **values(snapshot, query)}
            self._rendered[key] = (
                self._templates.get_template(f"{name}.html")
                .render(
                    base="live.html" if partly else "frame.html",
                    view=name,
                    title=title,
                    views=VIEWS,
                    session=session,
                    csrf=who,
                    snapshot=snapshot,
                    version=version,
                    seconds=self._pace.seconds,
                    status=snapshot.status,
                    **shown,
                )
                .encode()
            )
            while len(self._rendered) > _RENDERED:
                self._rendered.popitem(last=False)
        return self._rendered[key]

    def _session(self, request: Request) -> Login | None:
        session = self._sessions.find(request.cookies.get(COOKIE, ""))
        if session is not None:
            request.scope[PROVEN] = True  # its connection is not slowed down when strangers flood the service
        return session

    def _with_session(self, reply: Response, request: Request, session: Login, cookie: str) -> Response:
        # Without a path the browser takes the folder of this page, which is right under any prefix.
        # `lax`: the link may be opened from a message. Forms need a token in addition.
        secure = request.url.scheme == "https" or request.headers.get("x-forwarded-proto") == "https"
        reply.set_cookie(
            COOKIE,
            cookie,
            max_age=SECONDS[session.role],
            path="",
            secure=secure,
            httponly=True,
            samesite="strict" if session.operates else "lax",
        )
        return reply

    def _page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return _html(self._templates.get_template(template).render(**values).encode(), status)

    def _refused(self, status: int, message: str) -> Response:
        return self._page("refused.html", status=status, message=message)


def _html(content: bytes, status: int = 200) -> Response:
    return Response(content, status_code=status, media_type="text/html; charset=utf-8", headers=HEADERS)


def _to(where: str) -> Response:
    reply = RedirectResponse(where, status_code=303)
    reply.headers.update(HEADERS)
    return reply


def _same_site(request: Request) -> bool:
    """Return whether a form came from this site, as browsers state. Other programs state nothing."""
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form; empty if the form is too long or malformed."""
    content = b""
    try:
        async for part in request.stream():
            content += part
            if len(content) > _LARGEST_FORM:
                return {}
        fields = parse_qs(content.decode("ascii"), max_num_fields=10)
    except (ClientDisconnect, UnicodeDecodeError, ValueError):
        return {}
    return {name: values[0] for name, values in fields.items()}
