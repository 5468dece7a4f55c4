"""The functions and data shapes between a reward and an eliminated action: `python -m tests.service.walk`.

The run is a real one without a network, in mode `trusted` of the shuffle model. There the data passes through
the most parties: client, shuffler, coordinator. A profiler records every call and every return of the
package's functions until `survivors` has dropped actions. It recognises the data by its values: one client's
averages and report, then the sums of its cohort, the released means, the estimate and the scores.

- A step receives the data from an earlier step and passes its result on to another function.
- A helper gets the data from its caller, converts it and returns it. It passes the data only to checks.
- A check only reads the data and returns none of it. It passes the data only to helpers and checks.

Not counted: carriers, which move the data unchanged (`CARRIERS`: the store, the writer, the transport);
constructors; and the arithmetic inside `Mechanism.randomize` and `Mechanism.analyze`. A nested function
counts as its enclosing one. `survivors`, where the path ends, is a step.

A shape is the type of a value that a step receives or passes on. Bytes and text count by their content:
packed, sealed, JSON. Two kinds of values that hold a shape unchanged do not count: `RECORDS`, which a
store keeps, and `KEEPERS`, which exist while the data is processed.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import msgspec
import numpy as np

import dpbandits
from dpbandits.privacy import PrivacyRequest, SimulatedNoise
from dpbandits.protocol import Plan, Release, Sums, decode
from dpbandits.protocol.model import Fit
from dpbandits.service.client._client import Agreed, ClientCore, ClientMemory
from dpbandits.service.shared import Call, Metrics
from dpbandits.service.shuffler._app import ShufflerService

from .helpers import Deployment, Member, client_averages, client_noise, small_study

PACKAGE = str(Path(dpbandits.__file__).parent)
CARRIERS = ("storage/", "service/shared/", "_checks.py")
COUNTED = "service/shared/_common_endpoints.py: Served.reports"  # a carrier's file, but it makes the record
ARITHMETIC = ("Mechanism.randomize", "Mechanism.analyze")
CONSTRUCTORS = ("__init__", "__post_init__")
KEEPERS = ("Call", "ClientCore", "Outgoing", "_Job", "_Tables")
RECORDS = ("ClientMemory", "CollectionReply", "ReleaseRecord", "StoredReport")
END = "protocol/_elimination.py: survivors"
DEPTH = 4


@dataclass
class Event:
    """A call or a return, with the arguments or the result; `within` has the callers, innermost first."""

    kind: str
    code: CodeType
    within: list[CodeType]
    values: list[Any]


@dataclass
class Recorder:
    """Records every call and return of the package's functions while it is active."""

    events: list[Event] = field(default_factory=list)
    active: bool = False

    def __call__(self, frame: FrameType, event: str, value: Any) -> None:
        code = frame.f_code
        if not self.active or event not in ("call", "return") or not _ours(code):
            return
        within, back = list[CodeType](), frame.f_back
        while back is not None and _ours(back.f_code):
            within.append(back.f_code)
            back = back.f_back
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)
        names = (*code.co_varnames[:count], *code.co_freevars)
        values = [frame.f_locals.get(name) for name in names] if event == "call" else [value]
        self.events.append(Event(event, code, within, values))

    def run(self, work: Callable[[], None]) -> None:
        self.active = True
        sys.setprofile(self)
        try:
            work()
        finally:
            self.active = False
            sys.setprofile(None)


def _ours(code: CodeType) -> bool:
    return code.co_filename.startswith(PACKAGE)


@dataclass(frozen=True)
class Traces:
    """The data as numbers and as named byte strings, for recognising it."""

    vectors: list[list[float]]
    texts: list[tuple[str, bytes]]

    def shapes(self, value: Any, depth: int = DEPTH) -> Iterator[str]:
        """Return the shapes in which a value contains the data."""
        if isinstance(value, str | bytes):
            content = value.encode() if isinstance(value, str) else value
            yield from (name for name, one in self.texts if one in content)
        elif isinstance(value, np.ndarray):
            rows = value.reshape(-1, value.shape[-1]).tolist() if value.ndim and value.size else []
            yield from ("array" for row in rows if row in self.vectors)
        elif isinstance(value, list | tuple) and value and all(isinstance(x, int | float) for x in value):
            yield from ("sequence of numbers" for one in self.vectors if list(value) == one)
        elif depth and not isinstance(value, Plan):
            parts, named = _parts(value)
            found = [shape for part in parts for shape in self.shapes(part, depth - 1)]
            yield from ([type(value).__name__] if found and named else found)


def _parts(value: Any) -> tuple[Iterable[Any], bool]:
    """Return the parts of a value, and whether its type counts as a shape."""
    if isinstance(value, list | tuple):
        return value, False
    if isinstance(value, dict):
        return value.values(), False
    if isinstance(value, FunctionType):
        return [cell.cell_contents for cell in value.__closure__ or () if _filled(cell)], False
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__], True
    if isinstance(value, Fit):
        return [value.evidence], True
    if is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, one.name, None) for one in fields(value)], True
    return [], False


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _name(code: CodeType) -> str:
    qualified = code.co_qualname.split(".<locals>")[0]
    return f"{Path(code.co_filename).relative_to(PACKAGE)}: {qualified}"


@dataclass(frozen=True)
class Walk:
    """What each function received or passed on, in the order in which the functions are reached."""

    shapes_of: dict[str, set[str]]
    steps: list[str]
    helpers: list[str]
    checks: list[str]

    @staticmethod
    def of(events: Iterable[Event], traces: Traces) -> Walk:
        """Return the walk of the data with these traces, until the first return of `END`."""
        shapes_of, given = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        taking, returning = set[str](), set[str]()
        for event in events:
            shapes = {shape for value in event.values for shape in traces.shapes(value)}
            called, caller = _name(event.code), _name(event.within[0]) if event.within else ""
            constructs = any(code.co_name in CONSTRUCTORS for code in (event.code, *event.within[:1]))
            if shapes - {*KEEPERS} and not constructs:
                inside = [_name(code) for code in event.within if code.co_qualname in ARITHMETIC]
                if inside:
                    given[inside[0]].add("arithmetic")
                    continue
                shapes_of[called] |= shapes
                shapes_of[caller] |= shapes
                if event.kind == "return":
                    returning.add(called)
                elif called != caller:
                    taking.add(called)
                    given[caller].add(called)
            if called == END and event.kind == "return":
                break
        found = {name: shapes for name, shapes in shapes_of.items() if _on_the_path(name)}
        return _sorted_out(found, given, taking, returning)

    @property
    def shapes(self) -> list[str]:
        """Return the distinct shapes that the steps receive or pass on."""
        found = {shape for step in self.steps for shape in self.shapes_of[step]}
        return sorted(found - {*KEEPERS, *RECORDS})

    def __str__(self) -> str:
        lines = [
            f"{n:3} {step} ({', '.join(sorted(self.shapes_of[step]))})"
            for n, step in enumerate(self.steps, 1)
        ]
        return "\n".join(
            [
                *lines,
                f"{len(self.steps)} steps, {len(self.shapes)} shapes: {', '.join(self.shapes)}",
                *(f"{len(self.helpers)} helpers", *(f"    {one}" for one in self.helpers)),
                *(f"{len(self.checks)} checks", *(f"    {one}" for one in self.checks)),
            ]
        )


def _on_the_path(name: str) -> bool:
    return name == COUNTED or (bool(name) and not name.startswith(CARRIERS))


def _sorted_out(
    shapes_of: dict[str, set[str]], given: dict[str, set[str]], taking: set[str], returning: set[str]
) -> Walk:
    """Sort the functions into steps, helpers and checks."""
    helpers, checks = set[str](), set[str]()
    open_ = [name for name in shapes_of if name in taking and name != END]
    found = True
    while found:
        found = False
        for name in open_:
            allowed, group = (checks, helpers) if name in returning else (helpers | checks, checks)
            if name not in group and given[name] <= allowed:
                group.add(name)
                found = True
    kinds = [[name for name in shapes_of if name in group] for group in (helpers, checks)]
    return Walk(shapes_of, [name for name in shapes_of if name not in helpers | checks], *kinds)


def walk() -> Walk:
    """Return the walk of one client's data, from its averages to the eliminated actions."""
    recorder = Recorder()
    threading.setprofile(recorder)  # for the writer threads, which start now
    try:
        privacy = PrivacyRequest(trust="shuffle", epsilon=20, delta=1e-3, noise="discrete-gaussian")
        deployment = Deployment(study=small_study("shuffle", privacy=privacy), mode="trusted")
    finally:
        threading.setprofile(None)
    deployment.advance()
    watched, *others = deployment.join(deployment.run(deployment.coordinator.operator.status).cohort)
    deployment.play()
    for member in others:
        deployment.send(member, deployment.body(member))
    core = _client(deployment, watched)
    assert core.plan is not None
    assert deployment.link is not None
    averages = client_averages(deployment.study.actions, core.plan, watched.pseudonym)
    shuffler = ShufflerService(deployment.link.shuffler, Metrics())

    def work() -> None:
        sent, memory = next(core.report(averages)), core.memory
        call = Call(
            secret=sent.secret, body=sent.content, phase=memory.phase, attempt=memory.attempt, query={}
        )
        asyncio.run(shuffler.reports(call))
        deployment.clock.time += deployment.timing.report_seconds + 1
        deployment.advance()

    recorder.run(work)
    release = decode(deployment.run(lambda t: t.releases())[0].body, Release)
    estimate = deployment.coordinator.rounds.state.history[0].estimate
    deployment.close()
    report = _traces_of_report(core, averages, client_noise(watched.pseudonym))
    cohort = _traces_of_cohort(recorder, core.plan, release)
    learnt = [[*estimate], (deployment.study.actions.matrix @ np.array(estimate)).tolist()]
    return Walk.of(
        recorder.events,
        Traces([*report.vectors, *cohort.vectors, *learnt], [*report.texts, *cohort.texts]),
    )


def _client(deployment: Deployment, member: Member) -> ClientCore:
    """Return a client that has agreed to the terms and is asked to report now."""
    task, signed = deployment.task(member), deployment.context.signed
    assert signed is not None
    memory = ClientMemory(token=member.token, ticket=member.ticket, phase=task.phase, attempt=task.attempt)
    return ClientCore(
        url="http://coordinator.test",
        memory=memory,
        noise=client_noise(member.pseudonym),
        save=lambda _memory: None,
        agreed=Agreed(terms=deployment.context.terms, signed=signed),
        plan=decode(task.plan, Plan),
    )


def _traces_of_report(core: ClientCore, averages: list[float], noise: SimulatedNoise) -> Traces:
    assert core.plan is not None
    assert core.plan.mechanism is not None
    reported = core.plan.reported(np.array([averages]))
    row = core.plan.mechanism.randomize(reported, noise)[0]
    kept: Any = core.memory.sealed
    sealed = base64.b64decode(kept) if isinstance(kept, str) else kept
    packed = row.astype("<i8").tobytes()
    texts = [("packed bytes", packed), ("sealed bytes", sealed), ("base64", base64.b64encode(sealed))]
    return Traces([averages, reported[0].tolist(), row.tolist()], texts)


def _traces_of_cohort(recorder: Recorder, plan: Plan, release: Release) -> Traces:
    assert plan.mechanism is not None
    modulus, means = 1 << plan.mechanism.sum_bits, list(release.means)
    made = [one for event in recorder.events for one in event.values if isinstance(one, Sums)]
    sums = next(list(one.sums) for one in made if one.reports == plan.cohort)
    signed = [one - modulus if 2 * one >= modulus else one for one in sums]
    texts = [("JSON", msgspec.json.encode(numbers)) for numbers in (sums, means)]
    return Traces([[*sums], [*signed], means], texts)


if __name__ == "__main__":
    print(walk())
