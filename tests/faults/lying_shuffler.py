"""A shuffler that lies: its replies to the coordinator are changed on the way.

Most lies are told a few times and then stop, so that the study can continue. Lies that no coordinator can
detect (`moved`, `withheld`) are repeated for the whole attempt and recorded in `Told` for the checker.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpbandits.protocol import Plan, decode, share_message
from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import Place, ProvedReports, bound_share, hashed, set_checksum
from dpbandits.service.wire._sealing import OVERHEAD

from .claims import Claims, Key, Told
from .lies import ANY_PAGE, Fault
from .pages import page_for
from .party import Site

_CALL = re.compile(r"/v1/phases/(\d+)/attempts/(\d+)/collection(?:/(\w+))?(?:\?.*)?$")
PAGES = ("shares", "verifiers")
_FAILING = (("close", "failed"), ("sums", "failed"), ("sums", "closed"), ("sums", "checksum"))

Send = Callable[[Outgoing], Incoming | None]


class LyingShuffler:
    """Changes the replies of the shuffler to the coordinator. Without faults it changes nothing."""

    def __init__(self, faults: list[Fault], site: Site, claims: Claims) -> None:
        self._left = {fault: random.Random(f"{fault}").randint(1, 3) for fault in faults}
        self._site, self._claims = site, claims
        self.told, self.met = Told(), Counter[str]()
        self.lied = False  # whether it has lied since the coordinator's step began
        self._seen = Counter[str]()
        self._plans = dict[int, Plan]()
        self._cloned = dict[Key, tuple[str, bytes, int]]()
        self._sent = dict[Key, list[tuple[str, bytes]]]()  # pages with a forged share

    def call(self, outgoing: Outgoing, send: Send) -> Incoming | None:
        """Return the reply that the coordinator receives from its shuffler."""
        found = _CALL.search(outgoing.url)
        assert found is not None
        key, call = (int(found[1]), int(found[2])), found[3] or _collection(outgoing.method)
        reply = send(self._asked(key, call, outgoing))
        if reply is None or reply.status != 200:
            return reply
        content = json.loads(reply.content)
        if call in PAGES and outgoing.url.endswith("after="):
            self._cloned.pop(key, None)  # the coordinator starts over
            self._sent.pop(key, None)
        kept = self._kept_up(key, call, content)
        lie = next((one for one in self._left if self._due(one, call)), None)
        self._seen[call] += 1
        told = None if lie is None else self._lie(lie, key, call, content)
        if told is None and not kept:
            return reply
        return Incoming(status=200, content=json.dumps(content).encode()) if told is None else told

    def _due(self, lie: Fault, call: str) -> bool:
        return lie.party == call and lie.at <= self._seen[call] and self._left[lie] > 0

    def _asked(self, key: Key, call: str, outgoing: Outgoing) -> Outgoing:
        """Record a request of the coordinator. A report that is withheld is also left out of the sums."""
        if call == "open":
            self._plans[key[0]] = decode(json.loads(outgoing.content)["plan"], Plan)
        if call != "sums":
            return outgoing
        without = json.loads(outgoing.content)["without"]
        self.told.without[key] = set(without)
        if key not in self.told.withheld:
            return outgoing
        more = sorted({*without, self.told.withheld[key]})
        return replace(outgoing, content=json.dumps({"without": more}).encode())

    def _kept_up(self, key: Key, call: str, content: Any) -> bool:
        """Apply the lies that are repeated for the whole attempt; return whether there are any."""
        if call in PAGES and key in self.told.withheld:
            content[call] = [one for one in content[call] if one[0] != self.told.withheld[key]]
            return True
        if key in self._cloned and call in ("shares", "sums"):
            self._keep_clones(key, call, content)
            return True
        kept = call == "sums" and self._keep_forged(key, content)
        if key not in self.told.moved or content.get("state") != "summed" or call not in ("close", "sums"):
            return kept
        offset, more = self.told.moved[key]
        if content["share"]:
            moved = self._proved(key).prio3.shift(base64.b64decode(content["share"]), offset)
            content["share"] = base64.b64encode(moved).decode()
            return True
        modulus = 1 << self._mechanism(key).sum_bits
        moved = [(one + by) % modulus for one, by in zip(content["sums"]["sums"], offset, strict=True)]
        content.update(self._summed(key, moved, content["reports"] + more))
        return True

    def _summed(self, key: Key, sums: list[int], reports: int) -> dict[str, Any]:
        """Return the fields of a reply that has these sums of the attempt's plan."""
        told = {"plan": self._plans[key[0]].digest, "sums": sums, "reports": reports}
        return {"state": "summed", "reports": reports, "sums": told}

    def _mechanism(self, key: Key) -> Any:
        return self._plans[key[0]].mechanism

    def _lie(self, lie: Fault, key: Key, call: str, content: Any) -> Incoming | None:
        """Return the changed reply, or None if this lie does not fit; it then waits for the next reply."""
        dice = random.Random(f"{lie} {self._left[lie]}")
        if lie.step in ANY_PAGE:
            told: Incoming | None = page_for(lie.step, dice)
        elif call in PAGES:
            told = self._shares(lie.step, key, content, content[call], dice)
        else:
            told = self._collection(lie.step, key, content, dice)
            if (call, lie.step) in _FAILING:
                self.told.failed.add(key)
        if told is not None:
            self._left[lie] -= 1
            self.lied = True
            self.met[f"shuffler-lie: {call} {lie.step}"] += 1
        return told

    def _collection(self, lie: str, key: Key, content: Any, dice: random.Random) -> Incoming | None:
        sums = content["sums"]["sums"] if content["sums"] else []
        reports, summed, numbers = content["reports"], content["state"] == "summed", len(sums)
        about_sums = lie.startswith(("sums-", "share-")) or lie in ("checksum", "moved", "count-low")
        if about_sums and not summed:
            return None
        if lie == "moved":
            return self._move(key, content, dice)
        changes: dict[str, dict[str, Any]] = {
            "other-phase": {"phase": content["phase"] + dice.choice((-1, 1))},
            "other-study": {"study": "0" * 64},
            "unknown-state": {"state": dice.choice(("released", "", "collecting"))},
            "count-high": {"reports": dice.choice((1000, 2**62))},
            "count-negative": {"reports": -1},
            "count-low": self._summed(key, sums, reports - 1),
            "sums-short": self._summed(key, sums[:-1], reports),
            "sums-large": self._summed(key, [dice.choice((2**62, 2**63))] * numbers, reports),
            "sums-negative": self._summed(key, [-1] * numbers, reports),
            "checksum": {"checksum": hashed(f"{dice.random()}")},
            "failed": {"state": "failed", "sums": None},
            "closed": {"state": "closed", "sums": None},
            "share-short": {"share": base64.b64encode(dice.randbytes(8 * dice.randrange(3))).decode()},
            "share-random": {"share": base64.b64encode(dice.randbytes(8 * self._numbers(key))).decode()},
            "summed": self._summed(key, [dice.randrange(100) for _ in range(3)], reports),
        }
        return _json({**content, **changes[lie]})

    def _move(self, key: Key, content: Any, dice: random.Random) -> Incoming | None:
        """Add a number to the sums, and in trusted mode miscount a report. Nobody can detect this."""
        if key in self.told.moved:
            return None
        mechanism, cohort = self._mechanism(key), self._plans[key[0]].cohort
        # In mode `verified` the coordinator refuses sums that are not in the range of valid reports.
        most = 3 if content["share"] else 1 << mechanism.sum_bits
        offset = tuple(dice.randrange(most) for _ in range(self._numbers(key)))
        least = self._site.study.privacy.minimum_reports(cohort)
        fewer = self._site.mode == "trusted" and content["reports"] > least and dice.random() < 0.5
        self.told.moved[key] = (offset, -1 if fewer else 0)
        self._kept_up(key, "sums", content)
        return _json(content)

    def _numbers(self, key: Key) -> int:
        return self._plans[key[0]].numbers

    def _proved(self, key: Key) -> ProvedReports:
        plan = self._plans[key[0]]
        return ProvedReports.of(plan, Place.of(plan.study, plan, key[1], ""))

    def _shares(
        self, lie: str, key: Key, content: Any, page: list[list[str]], dice: random.Random
    ) -> Incoming | None:
        if len(page) < 2:
            return None
        victim = dice.randrange(len(page))
        name, sealed, *answer = page[victim]
        if lie in ("forged", "misnamed"):
            other = page[victim - 1][1] if lie == "misnamed" else self._forged(key, name, dice)
            self.told.forged.setdefault(key, set()).add(name)
            page[victim] = [name, other, *answer]
            self._sent[key] = [(one, base64.b64decode(share)) for one, share, *_ in page]
        elif lie == "answer":  # a false verifier share: the report is left out
            self.told.forged.setdefault(key, set()).add(name)
            page[victim] = [name, sealed, base64.b64encode(dice.randbytes(dice.choice((0, 500)))).decode()]
        elif lie in ("withheld", "hidden"):
            if lie == "withheld":
                self.told.withheld[key] = name
            else:
                self.told.hidden.add(key)
            del page[victim]
        elif lie == "cloned":
            name, sealed = next((one for one in page if one[0] in self._claims.heard), ("", ""))
            if not name:
                return None
            self._cloned[key] = (name, base64.b64decode(sealed), len(page))
            page[:] = [[name, sealed]] * len(page)
        else:
            page[:] = _other_pages(lie, page, dice)
        return _json(content)

    def _forged(self, key: Key, name: str, dice: random.Random) -> str:
        """Return a share of zeros that the shuffler has sealed for a client whose token it does not know."""
        plan = self._plans[key[0]]
        place = Place(study=plan.study, phase=key[0], attempt=key[1], plan=plan.digest, pseudonym=name)
        bound = bound_share(bytes(self._share_size(key)), place, hashed(f"{dice.random()}"))
        sealed = self._site.keys["coordinator"].public.seal(bound, place, "share-coordinator")
        return base64.b64encode(sealed).decode()

    def _share_size(self, key: Key) -> int:
        split = self._site.mode == "split"
        return share_message(self._plans[key[0]]).size if split else self._proved(key).part_size(1)

    def _keep_forged(self, key: Key, content: Any) -> bool:
        """If the coordinator has accepted a forged share, reply with the checksum of the same set."""
        without = self.told.without.get(key, set())
        if key not in self._sent or self.told.forged[key] <= without or content["state"] != "summed":
            return False
        content["checksum"] = set_checksum(one for one in self._sent[key] if one[0] not in without)
        return True

    def _keep_clones(self, key: Key, call: str, content: Any) -> None:
        """If the coordinator has accepted copies of one share, add the shuffler's own share as many times."""
        name, sealed, count = self._cloned[key]
        plan = self._plans[key[0]]
        if call == "shares":
            content["shares"] = []
            return
        place = Place(study=plan.study, phase=key[0], attempt=key[1], plan=plan.digest, pseudonym=name)
        own = self._claims.heard[name][: share_message(plan).size + OVERHEAD]
        share = self._site.keys["shuffler"].open(own, place, "share-shuffler")
        modulus = 1 << self._mechanism(key).sum_bits
        sums = [count * one % modulus for one in share_message(plan).unpack([share])[0].tolist()]
        content.update(self._summed(key, sums, count), checksum=set_checksum([(name, sealed)] * count))


def _collection(method: str) -> str:
    return "open" if method == "PUT" else "look"


def _other_pages(lie: str, page: list[list[str]], dice: random.Random) -> list[list[str]]:
    rest = page[0][1:]
    if lie == "twice":
        return dice.choice(([page[0]] * 300, [*page, page[-1]]))
    if lie == "unordered":
        return page[::-1]
    if lie == "invented":
        return sorted([*page, [hashed(f"{dice.random()}"), *rest]])
    if lie == "no-base64":
        return [[one[0], dice.choice(("no base64!", "é", "a")), *one[2:]] for one in page]
    if lie == "too-long":
        return [[f"{number:064x}", *rest] for number in range(1001)]
    assert lie == "endless"
    return [[f"{number:064x}", *rest] for number in range(1, 900)]


def _json(content: Any) -> Incoming:
    return Incoming(status=200, content=json.dumps(content).encode())
