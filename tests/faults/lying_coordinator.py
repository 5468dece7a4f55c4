"""A coordinator that lies to single clients: its replies are changed on the way.

A client must refuse, or continue as with an honest coordinator. `problems_of` checks what clients posted. The
reader must be able to open each report for a plan that the coordinator has stored. There is one exception: a
coordinator can give a client another plan with the same terms, if its noise has the promised guarantee. An
independent accountant checks that guarantee, and the report must not be accepted.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, get_args
from urllib.parse import urlsplit

from dpbandits.errors import Refused
from dpbandits.protocol import Plan, decode, encode
from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import PURPOSE, SHARED_MODES, KeyPair, Place, hashed, unbound_share
from dpbandits.service.wire._messages import TaskState
from tests.service.hostile_plans import SLACK, mutated, text_of, true_delta

from .actors import Person
from .claims import Post
from .lies import ANY_PAGE, Fault
from .pages import page_for
from .party import Site
from .values import second_part

_PLACE = re.compile(r"/v1/phases/(\d+)/attempts/(\d+)/reports$")
_LARGEST = 1 << 20  # bytes of the largest report that a client makes in a run


class LyingCoordinator:
    """Changes the replies of the coordinator to some clients."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = {fault.at: fault for fault in faults}
        self._left = {fault.at: random.Random(f"{fault}").randint(1, 3) for fault in self._faults.values()}
        self.met = Counter[str]()

    def hear(self, person: Person, outgoing: Outgoing, reply: Incoming) -> Incoming:
        """Return the reply that the client receives."""
        fault = self._faults.get(person.number)
        route = urlsplit(outgoing.url).path.rsplit("/", 1)[-1]
        if fault is None or fault.party != route or self._left[fault.at] == 0:
            return reply
        dice = random.Random(f"{fault} {self._left[fault.at]}")
        told = (
            page_for(fault.step, dice)
            if fault.step in ANY_PAGE
            else _changed(fault.step, reply, dice, person)
        )
        if told is None:
            return reply
        self._left[fault.at] -= 1
        self.met[f"coordinator-lie: {route} {fault.step}"] += 1
        person.lied = True
        return told


def _changed(lie: str, reply: Incoming, dice: random.Random, person: Person) -> Incoming | None:
    """Return the changed reply, or None if the lie does not fit this reply."""
    if lie == "taken":
        return Incoming(status=204, content=b"")
    if reply.status != 200:
        return None
    content = json.loads(reply.content)
    if lie.startswith("plan-"):
        if content["plan"] is None or not _other_plan(lie, content, dice, person):
            return None
    elif lie == "terms-field":
        content["terms"] = _other_terms(json.loads(content["terms"]), dice)
        content["study"] = hashed(content["terms"])
    else:
        content.update(_field(lie, content, dice))
    return Incoming(status=200, content=json.dumps(content).encode())


def _field(lie: str, content: Any, dice: random.Random) -> dict[str, Any]:
    return {
        "signature": lambda: {"signature": dice.choice(("", "00" * 64, "x", dice.randbytes(64).hex()))},
        "digest": lambda: {"study": hashed(f"{dice.random()}")},
        "state": lambda: {"state": dice.choice((*get_args(TaskState), "", "released"))},
        "phase": lambda: {"phase": dice.choice((0, -1, (content["phase"] or 0) + 1, 10**9))},
        "attempt": lambda: {"attempt": dice.choice((0, -1, (content["attempt"] or 0) + 1, 10**9))},
        "no-plan": lambda: {"plan": None, "state": "report"},
    }[lie]()


def _other_terms(terms: dict[str, Any], dice: random.Random) -> str:
    """Return terms with one changed field. Their digest differs, and no signature is valid for them."""
    key = str(KeyPair.new().public)
    party = {"url": "http://elsewhere", "key": key}
    changes: list[dict[str, Any]] = [
        {"run": "0" * 32}, {"epsilon": 1e6}, {"epsilon": 1e-3}, {"delta": 0.9}, {"minimum_reports": 1},
        {"largest_cohort": 2**40}, {"trust": "none"}, {"trust": "central", "mode": "", "shuffler": None},
        {"coordinator": party}, {"shuffler": party}, {"shuffler": None}, {"mode": "trusted"},
        {"mode": "split"}, {"noises": ["none", "laplace", "gaussian"]}, {"mechanisms": []}, {"sum_bits": 1},
        {"more": 1},
    ]  # fmt: skip
    changed = {**terms, **dice.choice(changes)}
    return json.dumps(changed if changed != terms else {**terms, "run": "1" * 32})


def _other_plan(lie: str, content: Any, dice: random.Random, person: Person) -> bool:
    """Put another plan into a task; return False if its reports would be too large."""
    plan = json.loads(content["plan"])
    if lie == "plan-study":
        plan["study"] = hashed(f"{dice.random()}")
    elif lie == "plan-noise":
        _quiet(plan["mechanism"], dice)
    elif lie == "plan-field":
        plan = mutated(plan, dice)
    body = text_of(plan)
    try:
        other = decode(body, Plan)
    except Exception:  # a plan that cannot be decoded is sent as it is
        content["plan_digest"], content["plan"] = hashed(body.decode()), body.decode()
        return True
    if other.mechanism is not None and other.mechanism.message.size > _LARGEST:
        return False
    content["plan_digest"] = other.digest if lie != "plan-digest" else hashed(f"{dice.random()}")
    content.update(plan=encode(other).decode(), phase=other.phase, state="report")
    person.told.append(other)
    return True


def _quiet(mechanism: dict[str, Any], dice: random.Random) -> None:
    """Change a mechanism to less noise than promised; if it has no noise, to a wider range."""
    factor = dice.choice((0.5, 0.1, 0.01))
    if "noise_bits" in mechanism:
        mechanism["noise_bits"] = max(1, int(mechanism["noise_bits"] * factor))
    elif "scale" in mechanism:
        mechanism["scale"] *= factor
    else:
        mechanism["bound"] /= factor


def problems_of(post: Post, site: Site, plans: dict[int, Plan], accepted: bool) -> str:
    """Return the problem with a report that an honest client posted, or an empty text."""
    reader, url = "coordinator" if site.mode is None else "shuffler", urlsplit(post.url)
    found = _PLACE.search(url.path)
    if found is None or url.netloc != reader:
        return f"client {post.number} posted to {post.url}"
    here = int(found[1])  # a report is posted to the phase that it was sealed for
    genuine = [
        plan for plan in plans.values() if plan.phase == here and _opens(post, site, plan, int(found[2]))
    ]
    if genuine:
        return ""
    fooled = [plan for plan in post.told if plan.phase == here and _opens(post, site, plan, int(found[2]))]
    if not fooled:
        return f"what client {post.number} posted is for no plan that it received"
    if accepted:
        return f"a report of client {post.number} for another plan was accepted"
    return _unfit(fooled[0], site)


def _opens(post: Post, site: Site, plan: Plan, attempt: int) -> bool:
    place = Place(
        study=plan.study, phase=plan.phase, attempt=attempt, plan=plan.digest, pseudonym=hashed(post.ticket)
    )
    try:
        if site.mode in SHARED_MODES:
            size = second_part(post.body, site.mode)
            site.keys["shuffler"].open(post.body[:size], place, "share-shuffler")
            opened = site.keys["coordinator"].open(post.body[size:], place, PURPOSE)
            unbound_share(opened, place, hashed(post.token))
        else:
            reader = "coordinator" if site.mode is None else "shuffler"
            site.keys[reader].open(post.body, place, "report")
    except Refused:
        return False
    return True


def _unfit(plan: Plan, site: Site) -> str:
    """Return why a client must not report for this false plan, or an empty text."""
    mechanism, privacy = plan.mechanism, site.study.privacy
    if mechanism is None or plan.study != site.study.terms or mechanism.trust != privacy.trust:
        return "a client reported for a plan of other terms"
    if privacy.trust == "none":
        return ""
    delta = true_delta(json.loads(encode(mechanism)), privacy.epsilon)
    return "" if delta <= privacy.delta * SLACK else f"a client reported for a plan with δ ≥ {delta:.3g}"
