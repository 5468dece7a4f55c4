"""`FederationDriver`: runs a study over the sites of a grid, using the state machine of `dpbandits.rounds`.

    driver = Driver(study, store, keys=keys, sites=public_keys, grid=grid)
    state = driver.run()

In each attempt at a phase, the driver asks every site that responds for a share of the cohort. The shares are
in proportion to the unused users of the sites. If a site does not answer in time, its share counts as missing
reports. With fewer reports than the minimum, nothing is released, and the next attempt asks unused users of
the sites that respond.

All durable data are in the store. After a crash, a new driver on the same store sends the same requests
again, and sites that have answered send the same bytes again. A phase is released once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dpbandits._checks import positive, whole
from dpbandits.errors import InvalidValue, Refused
from dpbandits.federation._answers import SiteAnswers
from dpbandits.federation._grid import Grid
from dpbandits.federation._messages import (
    Ask,
    Refusal,
    Reply,
    SiteAnswer,
    Status,
    StatusRequest,
    packed,
    read_reply,
)
from dpbandits.federation._signing import PublicSiteKey
from dpbandits.privacy import NoiseSource
from dpbandits.protocol import Plan, State, Study, encode
from dpbandits.rounds import CLOSED, PAUSED, RUNNING, Deadlines, Group, GroupRounds, Hook, standing_of
from dpbandits.service.wire import KeyPair
from dpbandits.storage import Attempt, Store

log = logging.getLogger("dpbandits.federation")

_AGAIN = ("failed", "no-data")  # reasons of refusals after which a site is asked again
_NEVER = 1e9  # seconds: the driver ends each wait itself, so that sites get the full time after a restart


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a driver waits for sites.

    Attributes:
        answer_seconds: How long sites have to answer a plan. After a restart the time starts again.
        join_seconds: How long to wait for sites that are registered but do not respond, before each attempt.
        resend_seconds: After this time a request is sent again. This is harmless, since a site answers once.
        poll_seconds: The pause before the driver checks again which sites are connected.
        attempts: After this many attempts at one phase without enough reports, the driver stops.

    Raises:
        InvalidValue: A time is not positive, or `attempts` is not between 1 and 10⁶.
    """

    answer_seconds: float = 3600.0
    join_seconds: float = 120.0
    resend_seconds: float = 60.0
    poll_seconds: float = 2.0
    attempts: int = 5

    def __post_init__(self) -> None:
        for name in ("answer_seconds", "join_seconds", "resend_seconds", "poll_seconds"):
            positive(**{name: getattr(self, name)})
        whole(1, 10**6, attempts=self.attempts)


class FederationDriver:
    """Runs a study over a grid of sites.

    Args:
        study: The study, with the digest of its terms.
        store: The store of the study. The caller closes it.
        keys: The key pair that sites seal their answers to, as the terms say.
        sites: The public key of each site, by the site's name in the grid.
        grid: The sites.
        patience: How long to wait for sites.
        noise: The source of noise for releases; secure by default. No file sets it.
        hook: Called with the name of each journal step, for fault injection.
        now: The time in seconds.
        sleep: Waits for a number of seconds.

    Raises:
        InvalidValue: The store belongs to another study, or the study has an assignment other than
            `everyone`.
        FloatingPointNoise: The study requests noise in floating point, and the source is not simulated.
        PlanMismatch: A journalled plan differs from the one that this study computes.
    """

    def __init__(
        self,
        study: Study,
        store: Store,
        *,
        keys: KeyPair,
        sites: Mapping[str, PublicSiteKey],
        grid: Grid,
        patience: Patience | None = None,
        noise: NoiseSource | None = None,
        hook: Hook = lambda _step: None,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._study = study
        self._answers = SiteAnswers(store, keys, sites)
        deadlines = Deadlines(report_seconds=_NEVER)
        self.rounds = GroupRounds(
            study, store, deadlines=deadlines, noise=noise, collector=self._answers, hook=hook
        )
        self._grid = grid
        self._patience = patience or Patience()
        self._now, self._sleep = now, sleep
        self._unused: dict[str, int] = {}  # the number of unused users of each site that responds
        self._given_up = 0  # the number of sites that the driver has stopped waiting for

    def run(self) -> State:
        """Run to the end of the horizon, or until the operator closes the study.

        Returns:
            The learner's state.

        Raises:
            InvalidValue: The sites that respond have too few unused users, or too many attempts failed. The
                store keeps what was learnt. Start more sites, and run again.
        """
        steps = {"gathering": self._gather, "playing": self._play, "collecting": self._collect}
        while True:
            standing, latest = self.rounds.read(standing_of), self.rounds.settle()
            if self.rounds.state.ended or (standing == CLOSED and (latest is None or latest.over)):
                return self.rounds.state
            if standing == PAUSED:
                self._sleep(self._patience.poll_seconds)
            elif latest is not None and latest.state in steps:  # not so if an order was given just now
                steps[latest.state](latest, self.rounds.plan(latest.phase))

    def _gather(self, latest: Attempt, plan: Plan) -> None:
        if latest.joined == 0:
            if latest.number > self._patience.attempts:
                expected = f"one with {self.rounds.minimum(plan):,} reports: check why sites do not answer"
                raise InvalidValue(f"phase {plan.phase}", f"{latest.number - 1} failed attempts", expected)
            self._meet(plan)
            minimum, unused = self.rounds.minimum(plan), sum(self._unused.values())
            if unused < minimum:
                found = f"{len(self._unused)} that respond, with {unused:,} users who have not taken part"
                expected = f"at least {minimum:,} users for phase {plan.phase}: start more sites"
                raise InvalidValue("sites", found, expected)
            try:
                self.rounds.join_groups(shares(plan.cohort, self._unused))
            except Refused:
                if self.rounds.read(standing_of) == RUNNING:
                    raise
                return  # the operator paused or closed the study while the driver waited for sites
        self.rounds.end_wait()

    def _play(self, latest: Attempt, plan: Plan) -> None:
        # Sites play the plan for their users when they answer, so every round counts as played now.
        self.rounds.record_rounds(latest.phase, latest.number, plan.rounds)

    def _meet(self, plan: Plan) -> None:
        """Ask sites how many unused users they have, until all registered sites have replied.

        After `join_seconds` the driver continues without the missing sites. It waits again only if more sites
        are missing than before.
        """
        end = self._now() + self._patience.join_seconds
        request = packed(StatusRequest(study=plan.study))
        while True:
            listed = self._grid.sites()
            self._unused = {name: count for name, count in self._unused.items() if name in listed}
            unknown = [name for name in listed if name not in self._unused]
            left = max(0.0, end - self._now())
            if unknown:
                seconds = max(1.0, min(self._patience.resend_seconds, left))
                for name, reply in self._ask(dict.fromkeys(unknown, request), seconds).items():
                    if isinstance(reply, Status):
                        self._unused[name] = reply.unused
            missing = max(0, self._grid.expected - len(self._unused))
            if missing <= self._given_up or left <= 0:
                self._given_up = missing
                return
            self._sleep(min(self._patience.poll_seconds, left))

    def _collect(self, latest: Attempt, plan: Plan) -> None:
        waiting = {group.name: group for group in self.rounds.unanswered(latest)}
        end = self._now() + self._patience.answer_seconds
        while waiting and (left := end - self._now()) > 0:
            listed = set(self._grid.sites())
            asked = {name: _request(plan, group) for name, group in waiting.items() if name in listed}
            replies = self._ask(asked, min(self._patience.resend_seconds, left)) if asked else {}
            final = {name: reply for name, reply in replies.items() if not _failed(reply)}
            for name, reply in final.items():
                self._take(plan, waiting.pop(name), reply)
            if len(final) < len(replies) or not asked:
                self._sleep(min(self._patience.poll_seconds, left))
        for name in waiting:  # the next attempt asks these sites only after they have sent their status
            log.warning("phase %d, attempt %d: no answer from site %s", latest.phase, latest.number, name)
            self._unused.pop(name, None)
        log.info("phase %d, attempt %d: %d sites are missing", latest.phase, latest.number, len(waiting))
        self.rounds.end_wait()

    def _take(self, plan: Plan, group: Group, reply: Reply) -> None:
        """Check and store an answer. Any other reply counts as missing reports."""
        self._unused.pop(group.name, None)
        if not isinstance(reply, SiteAnswer):
            return
        answer = packed(reply)
        try:
            self._answers.opened(plan, group, answer)
            self.rounds.accept_answer(group, answer)
        except Refused as refusal:
            log.warning("answer of site %s: %s", group.name, refusal)
        else:
            self._unused[group.name] = reply.unused

    def _ask(self, requests: Mapping[str, bytes], seconds: float) -> dict[str, Reply]:
        """Send requests and read the replies. A reply that cannot be read counts as a refusal."""
        replies = dict[str, Reply]()
        for name, data in self._grid.ask(requests, seconds).items():
            try:
                replies[name] = read_reply(data)
            except Refused as refusal:
                replies[name] = Refusal(reason=refusal.reason, message=refusal.message)
            if isinstance(reply := replies[name], Refusal):
                log.warning("refusal of site %s: %s: %s", name, reply.reason, reply.message)
        return replies


def _failed(reply: Reply) -> bool:
    """Return whether a site failed for a temporary reason, such as a database that cannot be reached."""
    return isinstance(reply, Refusal) and reply.reason in _AGAIN


def _request(plan: Plan, group: Group) -> bytes:
    ask = Ask(plan=encode(plan).decode(), attempt=group.attempt, users=group.places, group=group.pseudonym)
    return packed(ask)


def shares(cohort: int, unused: Mapping[str, int]) -> dict[str, int]:
    """Divide a cohort among sites in proportion to their unused users.

    Example: `shares(10, {"a": 30, "b": 10})` is `{"a": 8, "b": 2}`.

    Args:
        cohort: How many users are asked.
        unused: How many unused users each site has.

    Returns:
        The share of each site whose share is not 0. The sum is the cohort, or the number of all unused users
        if that is smaller.
    """
    total = sum(unused.values())
    wanted = min(cohort, total)
    found = {name: wanted * count // total for name, count in unused.items() if count}
    rest = {name: wanted * count % total for name, count in unused.items() if count}
    for name in sorted(rest, key=lambda name: (-rest[name], name))[: wanted - sum(found.values())]:
        found[name] += 1
    return {name: count for name, count in found.items() if count}
