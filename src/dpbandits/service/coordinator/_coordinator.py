"""The coordinator of a deployed study: the rounds of `dpbandits.rounds`, with clients, keys and a shuffler.

The states of an attempt, and what leads from one to the next, are at the head of rounds/_machine.py. The
coordinator adds what only a deployment over a network has:

- clients enrol with one-time codes and authenticate with tokens (_participation.py);
- reports are stored sealed to the coordinator's key, and the noise of a release is derived from them
  (_releasing.py);
- in the shuffle model reports go to a shuffler, which the coordinator trusts in nothing (_shuffling.py);
- a file outside the store says how far the study has come, so that a store that was set back is noticed
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
from dpbandits.storage import Store


class Coordinator:
    """All of a coordinator but the network: what callers may do, and `advance`, which moves the study on."""

    def __init__(self, context: Context, store: Store, link: ShufflerLink | None = None) -> None:
        if context.shuffled and link is None:
            raise InvalidValue("shuffler", None, "a link to it")
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
        """The context under the store's terms."""
        planned = given.planned(self.writer.run("read", lambda transaction: transaction.study()))
        return self.writer.run("begin", planned.settled, alone=True)

    def _rounds(self, link: ShufflerLink | None) -> Rounds:
        """The rounds, once the whole journal was replayed."""
        context = self.context

        def check(plan: Plan) -> None:
            """Clients would refuse a plan outside the terms, after their participation was spent."""
            context.terms.check(plan, context.name)

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

    @property
    def ended(self) -> bool:
        """Whether the horizon is reached."""
        return self.rounds.state.ended

    def close(self) -> None:
        """Finish what is under way and let go of the store."""
        self.writer.close()
        self.store.close()
