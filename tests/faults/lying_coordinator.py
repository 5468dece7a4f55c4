"""A coordinator that lies to single clients: what it answers them is changed on the way.

A client must refuse, or go on honestly. `problems_of` judges what clients posted: it must open at the reader
for a plan that the coordinator has journalled. Only a client can be fooled into another plan by its
coordinator, so the other case is a plan of the same terms whose noise gives the promised guarantee, judged by
an accountant of its own; such a report must not be accepted.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from dpbandits.errors import Refused
from dpbandits.protocol import Plan, decode, encode, share_message
from dpbandits.service.shared._dialogue import Incoming, Outgoing
from dpbandits.service.wire import PURPOSE, KeyPair, Place, hashed, unbound_share
from dpbandits.service.wire._messages import TASK_STATES
from dpbandits.service.wire._sealing import OVERHEAD
from tests.service.hostile_plans import SLACK, mutated, text_of, true_delta

from .actors import Person
from .claims import Post
from .lies import ANY_PAGE, Fault
from .pages import page_for
from .party import Site

_PLACE = re.compile(r"/v1/phases/(\d+)/attempts/(\d+)/reports$")
_LARGEST = 1 << 20  # bytes of a report that a client of a run makes


class LyingCoordinator:
    """Between the coordinator and the clients that it lies to."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self._faults = {fault.at: fault for fault in faults}
        self._left = {fault.at: random.Random(f"{fault}").randint(1, 3) for fault in self._faults.values()}
        self.met = Counter[str]()

    def hear(self, person: Person, outgoing: Outgoing, reply: Incoming) -> Incoming:
        """What the client hears instead."""
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
    """The reply with a lie in it, or None if there is no place for this one."""
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
        "state": lambda: {"state": dice.choice((*TASK_STATES, "", "released"))},
        "phase": lambda: {"phase": dice.choice((0, -1, content["phase"] + 1, 10**9))},
        "attempt": lambda: {"attempt": dice.choice((0, -1, content["attempt"] + 1, 10**9))},
        "no-plan": lambda: {"plan": None, "state": "report"},
    }[lie]()


def _other_terms(terms: dict[str, Any], dice: random.Random) -> str:
    """Terms with a field changed: their digest is another one, and no signature fits."""
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
    """Put another plan into a task; False if its reports would be too large to make."""
    plan = json.loads(json.dumps(content["plan"]))
    if lie == "plan-study":
        plan["study"] = hashed(f"{dice.random()}")
    elif lie == "plan-noise":
        _quiet(plan["mechanism"], dice)
    elif lie == "plan-field":
        plan = mutated(plan, dice)
    body = text_of(plan)
    try:
        other = decode(body, Plan)
    except Exception:  # what cannot be read is sent as it is
        content["plan_digest"], content["plan"] = hashed(body.decode()), json.loads(json.dumps(plan))
        return True
    if other.mechanism is not None and other.mechanism.message.size > _LARGEST:
        return False
    content["plan_digest"] = other.digest if lie != "plan-digest" else hashed(f"{dice.random()}")
    content.update(plan=json.loads(encode(other)), phase=other.phase, state="report")
    person.told.append(other)
    return True


def _quiet(mechanism: dict[str, Any], dice: random.Random) -> None:
    """Less noise than was promised; without noise, a wider range."""
    factor = dice.choice((0.5, 0.1, 0.01))
    if "noise_bits" in mechanism:
        mechanism["noise_bits"] = max(1, int(mechanism["noise_bits"] * factor))
    elif "scale" in mechanism:
        mechanism["scale"] *= factor
    else:
        mechanism["bound"] /= factor


def problems_of(post: Post, site: Site, plans: dict[int, Plan], accepted: bool) -> str:
    """What is wrong with something that an honest client posted, or nothing."""
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
        return f"what client {post.number} posted is for no plan that it was told"
    if accepted:
        return f"a report of client {post.number} for another plan was accepted"
    return _unfit(fooled[0], site)


def _opens(post: Post, site: Site, plan: Plan, attempt: int) -> bool:
    place = Place(
        study=plan.study, phase=plan.phase, attempt=attempt, plan=plan.digest, pseudonym=hashed(post.ticket)
    )
    try:
        if site.mode == "split":
            size = share_message(plan).size + OVERHEAD
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
    """Why a client must not have answered this plan, which is not the coordinator's own."""
    mechanism, privacy = plan.mechanism, site.study.privacy
    if mechanism is None or plan.study != site.study.terms or mechanism.trust != privacy.trust:
        return "a client answered a plan of other terms"
    if privacy.trust == "none":
        return ""
    delta = true_delta(json.loads(encode(mechanism)), privacy.epsilon)
    return "" if delta <= privacy.delta * SLACK else f"a client answered a plan with δ ≥ {delta:.3g}"
