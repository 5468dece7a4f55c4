"""The functions and data shapes that one report passes through: `python -m tests.service.walk` prints them.

The run is a real one without a network, in mode `trusted` of the shuffle model. There a report passes through
the most parties: client, shuffler, coordinator. A profiler records every call and every return of the
package's functions. It recognises the data by its values.

A function is a hop if it receives the data, as an argument or from a function that it calls, and passes it
on, as an argument or by returning it. These are not counted: carriers, which move the data unchanged
(storage/ and service/shared/: the writer, the transport); the arithmetic inside `Mechanism.randomize` and
`Mechanism.analyze`; and functions that only inspect the data. A nested function counts as its enclosing one.

A shape is the type of a value that a hop receives or passes on. Bytes and text count by their content:
packed, sealed, JSON. `KEEPERS` are objects that hold such a value; they do not count as a shape.
"""

from __future__ import annotations

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
from dpbandits.service.client._client import Agreed, ClientCore, ClientMemory

from .helpers import Deployment, Member, client_averages, client_noise, small_study

PACKAGE = str(Path(dpbandits.__file__).parent)
CARRIERS = ("storage/", "service/shared/", "_checks.py")
ARITHMETIC = ("Mechanism.randomize", "Mechanism.analyze")
KEEPERS = ("ClientCore", "Outgoing", "_Job", "_Tables")
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
    texts: dict[str, bytes]

    def shapes(self, value: Any, depth: int = DEPTH) -> Iterator[str]:
        """Return the shapes in which a value contains the data."""
        if isinstance(value, str | bytes):
            content = value.encode() if isinstance(value, str) else value
            yield from (name for name, one in self.texts.items() if one in content)
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
    """The shapes of each hop, in the order in which the hops are reached."""

    hops: dict[str, set[str]]

    @staticmethod
    def of(events: Iterable[Event], traces: Traces) -> Walk:
        """Return the walk of the data with these traces."""
        received, passed = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for event in events:
            shapes = {shape for value in event.values for shape in traces.shapes(value)}
            if not shapes or any(code.co_qualname in ARITHMETIC for code in event.within):
                continue
            called, caller = _name(event.code), _name(event.within[0]) if event.within else ""
            receiver, giver = (called, caller) if event.kind == "call" else (caller, called)
            received[receiver] |= shapes
            passed[giver] |= shapes
        hops = [name for name in received if name in passed and not name.startswith(CARRIERS)]
        return Walk({name: received[name] | passed[name] for name in hops if name})

    @property
    def shapes(self) -> list[str]:
        """Return the distinct shapes that the hops receive or pass on."""
        return sorted({shape for found in self.hops.values() for shape in found} - {*KEEPERS})

    def __str__(self) -> str:
        lines = [f"{n:3} {hop} ({', '.join(sorted(self.hops[hop]))})" for n, hop in enumerate(self.hops, 1)]
        return "\n".join(
            [*lines, f"{len(self.hops)} hops, {len(self.shapes)} shapes: {', '.join(self.shapes)}"]
        )


def walks() -> tuple[Walk, Walk]:
    """Return the walk of one report until it is added up, and of the cohort's sums until `tell`."""
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
    averages = client_averages(deployment.study.actions, core.plan, watched.pseudonym)

    def work() -> None:
        outgoing = next(core.report(averages))
        deployment.send(watched, outgoing.content)
        deployment.clock.time += deployment.timing.report_seconds + 1
        deployment.advance()

    recorder.run(work)
    release = decode(deployment.run(lambda t: t.releases())[0].body, Release)
    deployment.close()
    report = _traces_of_report(core, averages, client_noise(watched.pseudonym))
    return Walk.of(recorder.events, report), Walk.of(
        recorder.events, _traces_of_cohort(recorder, core.plan, release)
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
        agreed=Agreed(terms=deployment.context.terms, signed=signed),
        plan=decode(bytes(task.plan), Plan),
    )


def _traces_of_report(core: ClientCore, averages: list[float], noise: SimulatedNoise) -> Traces:
    assert core.plan is not None
    assert core.plan.mechanism is not None
    row = core.plan.mechanism.randomize(core.plan.reported(np.array([averages])), noise)[0]
    kept: Any = core.memory.sealed
    sealed = base64.b64decode(kept) if isinstance(kept, str) else kept
    texts = {
        "packed bytes": row.astype("<i8").tobytes(),
        "sealed bytes": sealed,
        "base64": base64.b64encode(sealed),
    }
    return Traces([averages, row.tolist()], texts)


def _traces_of_cohort(recorder: Recorder, plan: Plan, release: Release) -> Traces:
    assert plan.mechanism is not None
    modulus, means = 1 << plan.mechanism.sum_bits, list(release.means)
    made = [one for event in recorder.events for one in event.values if isinstance(one, Sums)]
    sums = next(list(one.sums) for one in made if one.reports == plan.cohort)
    signed = [one - modulus if 2 * one >= modulus else one for one in sums]
    texts = {"JSON of sums": msgspec.json.encode(sums), "JSON of means": msgspec.json.encode(means)}
    return Traces([[*sums], [*signed], means], texts)


if __name__ == "__main__":
    print(*walks(), sep="\n\n")
