"""`Coordinator`: the rounds of `dpbandits.rounds` for a deployment, with clients, keys and a shuffler.

The docstring of rounds/_machine.py lists the states of an attempt and their transitions. The coordinator adds
what only a deployment over a network needs:

- Clients enrol with one-time codes and authenticate with tokens (_participation.py).
- Reports are stored sealed to the coordinator's key, and the noise of a release is derived from them
  (_releasing.py).
- In the shuffle model clients send reports to a shuffler. The coordinator checks everything that the shuffler
  sends (_shuffling.py).
- A file outside the store records how far the study has come, so that an old copy of the store is detected
  (_watermark.py).
"""

from __future__ import annotations

from dpbandits.errors import InvalidValue
from dpbandits.protocol import Plan
from dpbandits.rounds import Rounds
from dpbandits.service.coordinator._context import Context
from dpbandits.service.coordinator._operator_views import OperatorViews
from dpbandits.service.coordinator._participation import Participation
from dpbandits.service.coordinator._playing import Playing
from dpbandits.service.coordinator._releasing import SealedReports
from dpbandits.service.coordinator._shuffler_link import ShufflerLink
from dpbandits.service.coordinator._shuffling import Shuffling
from dpbandits.service.coordinator._watermark import WatchedStore
from dpbandits.service.shared import Writer
from dpbandits.storage import MemoryStore, Store


class Coordinator:
    """A coordinator without the network. `advance` takes the next step of the study.

    Args:
        context: The study with its keys, terms and timing.
        store: The store of the study. The coordinator closes it.
        link: The link to the shuffler; needed in the shuffle model.

    Attributes:
        clients: What clients may do.
        actuator: What the actuator may do.
        operator: What the operator may do.

    Raises:
        InvalidValue: The link is missing, the store belongs to another study or other terms, or the store of
            a conformance test is not in memory.
        PlanMismatch: A journalled plan differs from the one that this study computes.
    """

    def __init__(self, context: Context, store: Store, link: ShufflerLink | None = None) -> None:
        if context.shuffled and link is None:
            raise InvalidValue("shuffler", None, "a link to the shuffler")
        if context.conformance and not isinstance(store, MemoryStore):
            raise InvalidValue(
                "storage", type(store).__name__, "a store in memory: nothing of a test is kept"
            )
        self.store = store if context.watermark is None else WatchedStore(store, context.watermark)
        self.writer = Writer(self.store, hook=context.hook)
        try:
            self.context = self._settled(context)
            self.rounds = self._rounds(link)
        except BaseException:
            self.close()
            raise
        self.clients = Participation(self.context, self.rounds)
        self.actuator = Playing(self.context, self.rounds)
        self.operator = OperatorViews(self.context, self.rounds)
        self.advance = self.rounds.advance

    def _settled(self, given: Context) -> Context:
        """Return the context with the terms of the store."""
        planned = given.planned(self.writer.run("read", lambda transaction: transaction.study()))
        return self.writer.run("begin", planned.settled, alone=True)

    def _rounds(self, link: ShufflerLink | None) -> Rounds:
        """Return the rounds, after replaying the whole journal."""
        context = self.context

        def check(plan: Plan) -> None:
            """Refuse a plan whose reports would be refused after clients have used up their participation."""
            context.terms.check(plan, context.name)
            context.check_fits(plan)

        return Rounds(
            context.study,
            self.store,
            deadlines=context.timing,
            clock=context.clock,
            noise=context.noise,
            transactions=self.writer,
            custody=lambda plan, attempt: SealedReports(context, plan, attempt),
            collector=None if link is None else Shuffling(context, self.writer, link),
            check_plan=check,
            hook=context.hook,
        )

    def begin(self) -> None:
        """Journal the first plan if there is none yet, and check the current one.

        Call this before clients can connect, so that a study that cannot be served fails at once.

        Raises:
            InvalidValue: A report of the first or current plan is larger than the limits allow.
            Refused: The first plan does not keep the terms.
        """
        latest = self.rounds.current()
        if latest is None:
            self.rounds.advance()
        elif (plan := self.rounds.plan(latest.phase)).asks:
            self.context.check_fits(plan)

    @property
    def ended(self) -> bool:
        """Whether all rounds have been played."""
        return self.rounds.state.ended

    def close(self) -> None:
        """Finish the transactions in progress, and close the store."""
        self.writer.close()
        self.store.close()
