"""The HTTP application of a coordinator: its endpoints, and the background thread that advances the study."""

from __future__ import annotations

import asyncio
import logging
import threading

import msgspec
from starlette.applications import Starlette

from dpbandits.errors import DpbanditsError, Refused, Unreachable
from dpbandits.protocol import Plan
from dpbandits.service.coordinator._coordinator import Coordinator
from dpbandits.service.coordinator._polls import Polls
from dpbandits.service.shared import (
    Call,
    Endpoint,
    Limits,
    Metrics,
    RoleTokens,
    Served,
    endpoint,
    party_app,
    report_endpoint,
)
from dpbandits.service.wire import (
    ClientReply,
    ClientRequest,
    EnrolmentReply,
    EnrolmentRequest,
    OrderRequest,
    PlayReply,
    ProgressReply,
    ReportSlot,
    ResultsReply,
    RoundsRequest,
    ScheduleReply,
    StatusReply,
    StudyReply,
    TaskReply,
    TaskRequest,
)
from dpbandits.storage import Transaction

log = logging.getLogger("dpbandits.service")


_TOGETHER = 0.1  # seconds within which all pokes lead to one step; every poll that reads the store pokes
_STEP = 5.0  # seconds that the current step has to finish when the service stops


class CoordinatorService(Served):
    """The request handlers. Each is a thin wrapper around a method of the coordinator."""

    def __init__(self, coordinator: Coordinator, driver: Driver, metrics: Metrics) -> None:
        super().__init__(coordinator.writer, metrics, coordinator.context.keys)
        self._coordinator = coordinator
        self._driver = driver
        self._polls = Polls(coordinator.clients, coordinator.writer)

    async def study(self, _call: Call) -> StudyReply:
        """Return the public description of the study."""
        return self._coordinator.operator.about()

    async def enrolments(self, call: Call) -> EnrolmentReply:
        """Create one-time enrolment codes."""
        reply = self._coordinator.operator.new_codes(call.body.count)
        keep, seconds = self._coordinator.operator.keep_codes, call.body.valid_seconds
        await self.run("codes", lambda t: keep(t, reply.codes, seconds))
        return reply

    async def clients(self, call: Call) -> ClientReply:
        """Enrol a client."""
        return await self.run(
            "enrol", lambda t: self._coordinator.clients.enrol(t, call.secret, call.body.token)
        )

    async def tasks(self, call: Call) -> TaskReply:
        """Let a client join if there is a place, and return its task."""
        request: TaskRequest = call.body
        clients = self._coordinator.clients
        reply = await self._polls.reply(call.secret, request)
        if reply is None:
            task = clients.task
            reply = await self.run("join", lambda t: task(t, call.secret, request.pseudonym, request.have))
            self._polls.learn(call.secret, request, reply)
            self._driver.poke()
        clients.pace.polled(call.secret)
        return reply

    def accepted(self, pseudonym: str) -> None:
        """Answer later polls of this client from the store, since it has reported."""
        self._polls.forget(pseudonym)

    async def slot(self, call: Call) -> ReportSlot:
        """Return the place that a client's report belongs to."""
        plan = await self._plan(call.phase)
        return self._coordinator.clients.slot(plan, call.attempt, call.secret)

    async def _plan(self, phase: int) -> Plan:
        journal = self._coordinator.rounds.journal

        def planned(transaction: Transaction) -> Plan | None:
            """Return the plan of a phase that has begun. For any other number, no plan is read."""
            latest = transaction.latest()
            begun = latest is not None and 1 <= phase <= latest.phase
            return journal.plan(transaction, phase) if begun else None

        plan = journal.known_plan(phase) or await self.run("read", planned)
        if plan is None:
            raise Refused("not-found", "no such phase")
        if not plan.asks:
            raise Refused("closed", "this phase asks nobody")
        return plan

    async def play(self, _call: Call) -> PlayReply:
        """Return the action of the next round."""
        return await self.run("read", self._coordinator.actuator.play)

    async def schedule(self, _call: Call) -> ScheduleReply:
        """Return the actions and rounds of the whole phase."""
        return await self.run("read", self._coordinator.actuator.schedule)

    async def rounds(self, call: Call) -> ScheduleReply:
        """Record how many rounds were played."""
        request: RoundsRequest = call.body
        count = self._coordinator.actuator.rounds
        reply = await self.run("rounds", lambda t: count(t, request.phase, request.attempt, request.played))
        self._driver.poke()
        return reply

    async def status(self, _call: Call) -> StatusReply:
        """Return the state of the study, and the error that blocks it, if any."""
        return await self._told(await self.run("read", self._coordinator.operator.status))

    async def _told(self, reply: StatusReply) -> StatusReply:
        """Add to a status what is known without a transaction."""
        found = await asyncio.to_thread(self._coordinator.operator.concluded)
        return msgspec.structs.replace(reply, trouble=self._driver.trouble, **found)

    async def orders(self, call: Call) -> StatusReply:
        """Pause, resume or close the study."""
        request: OrderRequest = call.body
        reply = await self.run(
            "order", lambda t: self._coordinator.operator.order(t, request.order), alone=True
        )
        log.warning("order", extra={"kind": request.order})
        self._driver.poke()
        return await self._told(reply)

    async def progress(self, _call: Call) -> ProgressReply:
        """Return one progress record per phase."""
        return await self.run("read", self._coordinator.operator.progress)

    async def results(self, _call: Call) -> ResultsReply:
        """Return the results with the privacy guarantee."""
        operator = self._coordinator.operator
        journalled = await self.run("read", operator.journalled)
        return await asyncio.to_thread(operator.results_of, journalled)


class Driver:
    """A thread that advances the study: at once when poked, and every `seconds` to check deadlines.

    A step that fails, for example because the shuffler is down or the disk is full, is retried with
    exponential backoff, however often it is poked; the longest pause is 50 × `seconds`. `trouble` describes
    the error of the last step; it is empty if that step succeeded.
    """

    def __init__(self, coordinator: Coordinator, metrics: Metrics, *, seconds: float = 0.2) -> None:
        self._coordinator = coordinator
        self._metrics = metrics
        self._seconds = seconds
        self.trouble = ""
        self._poked = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def poke(self) -> None:
        """Take the next step soon: something may have become due."""
        self._poked.set()

    def stop(self) -> None:
        """Stop the thread after its current step, or after 5 seconds.

        A step may wait longer for a shuffler that does not reply. Then the process ends during the step, as
        in a crash, and the journal continues it at the next start.
        """
        self._stopped.set()
        self._poked.set()
        self._thread.join(_STEP)
        if self._thread.is_alive():
            log.warning("stopped-during-step")

    def _run(self) -> None:
        wait = self._seconds
        while not self._stopped.is_set():
            if self._stepped():
                wait = self._seconds
                self._poked.wait(wait)
            else:
                wait = min(2 * wait, 50 * self._seconds)
                self._stopped.wait(wait)
            self._poked.clear()
            self._stopped.wait(_TOGETHER)

    def _stepped(self) -> bool:
        try:
            while self._coordinator.advance() and not self._stopped.is_set():
                self._measure()
        except Unreachable:
            self.trouble = "the shuffler cannot be reached"
            log.warning("unreachable", extra={"kind": "the shuffler"})
        except DpbanditsError as error:
            self.trouble = str(error)
            log.error("step", extra={"kind": type(error).__name__, "told": str(error)})
        except Exception as error:
            self.trouble = f"internal error: {type(error).__name__}"
            log.error("step", extra={"kind": type(error).__name__})
        else:
            self.trouble = ""
            return True
        self._metrics.driver_errors.inc()
        return False

    def _measure(self) -> None:
        status = self._coordinator.writer.run("read", self._coordinator.operator.status)
        self._metrics.clock_skew.set(self._coordinator.rounds.clock_skew)
        self._metrics.phase.set(status.phase)
        self._metrics.releases.set(status.releases)
        self._metrics.failed_attempts.set(status.failed_attempts)
        self._metrics.rounds_played.set(status.rounds_played)
        self._metrics.actions_left.set(status.actions_left)
        log.info("study", extra={"phase": status.phase, "attempt": status.attempt, "state": status.state})


def coordinator_app(coordinator: Coordinator, roles: RoleTokens, limits: Limits | None = None) -> Starlette:
    """Build the HTTP application of a coordinator.

    Args:
        coordinator: The coordinator. The application closes it when it shuts down.
        roles: The hashed tokens of the roles, such as operator and actuator.
        limits: Limits on requests; the defaults of `Limits` if not given.

    Returns:
        The application, which starts the driver thread when it starts.
    """
    metrics = Metrics()
    driver = Driver(coordinator, metrics)
    served = CoordinatorService(coordinator, driver, metrics)
    endpoints, ends = coordinator_endpoints(served), (driver.stop, coordinator.close)
    app = party_app("dpbandits coordinator", served, endpoints, roles, limits, begin=driver.start, ends=ends)
    app.state.driver = driver  # the dashboard shows its trouble
    return app


def coordinator_endpoints(served: CoordinatorService) -> list[Endpoint]:
    """Return the endpoints of version 1 of the API. Reports come first, since routes are tried in order."""
    joined = "Join a cohort if there is a place, and get the client's task"
    played = "Record how many rounds of an attempt were played so far"
    ordered = "Pause, resume or close the study"
    codes, enrolled = "Create one-time enrolment codes", "Enrol with a one-time code"
    return [
        report_endpoint(served, "Send the client's report, sealed"),
        endpoint("GET /v1/study", None, served.study, "The study", browsers=True),
        endpoint(
            "POST /v1/clients",
            "enrolment",
            served.clients,
            enrolled,
            takes=ClientRequest,
            refusals=(409, 410),
            browsers=True,
        ),
        endpoint(
            "POST /v1/tasks",
            "client",
            served.tasks,
            joined,
            takes=TaskRequest,
            refusals=(409,),
            browsers=True,
        ),
        endpoint("GET /v1/play", "actuator", served.play, "The action of the next round"),
        endpoint(
            "GET /v1/schedule", "actuator", served.schedule, "The actions and rounds of the whole phase"
        ),
        endpoint("POST /v1/rounds", "actuator", served.rounds, played, takes=RoundsRequest, refusals=(409,)),
        endpoint("POST /v1/enrolments", "operator", served.enrolments, codes, takes=EnrolmentRequest),
        endpoint("GET /v1/status", "operator", served.status, "The state of the study"),
        endpoint("POST /v1/orders", "operator", served.orders, ordered, takes=OrderRequest, refusals=(409,)),
        endpoint("GET /v1/progress", "operator", served.progress, "One progress record per phase"),
        endpoint("GET /v1/results", "operator", served.results, "The results with the privacy guarantee"),
    ]
