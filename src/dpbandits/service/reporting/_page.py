"""The page of a report: one HTML file without scripts, which can be printed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dpbandits.options import name_of
from dpbandits.privacy import TRUST_MODELS
from dpbandits.protocol import Plan, Release, decode, encode
from dpbandits.service.reporting._figures import Bar, intervals, over_phases, who_sees_what
from dpbandits.service.reporting._record import Record, RecordedPhase
from dpbandits.service.reporting._words import parties, promise, who_is_protected_from
from dpbandits.service.wire import ShufflerStatement, Signed

_DRAWN = 12  # options in the figure
_LISTED = 200  # options in the table


def page_of(text: str, record: Record, signed: Signed) -> str:
    """Return the page of a record.

    Args:
        text: The JSON of the record, as it was signed.
        record: The record.
        signed: Its signature.

    Returns:
        The HTML. It depends only on the arguments, so `verify` can make the same page again.
    """
    page: str = _template().render(
        record=record,
        text=Markup(text),
        signature=Markup(encode(signed).decode()),
        signed=signed,
        **_values(record),
    )
    return page


def _values(record: Record) -> dict[str, Any]:
    study = msgspec.json.decode(record.study)
    model = TRUST_MODELS[study["privacy"]["trust"]]
    statement = None
    if record.statement is not None:
        statement = msgspec.json.decode(record.statement.text, type=ShufflerStatement)
    mode = "" if statement is None else statement.mode
    privacy = study["privacy"]
    phases = [_phase(record, phase) for phase in record.phases]
    found, answer = parties(model, mode), record.conclusion.answer
    return {
        "study": study,
        "model": model,
        "mode": mode,
        "statement": statement,
        "phases": phases,
        "parties": found,
        "picture": who_sees_what(found, "Who sees what"),
        "promise": promise(privacy["epsilon"], privacy["delta"]),
        "protects": who_is_protected_from(model),
        "figure": _figure(record),
        "course": over_phases(_course(record), "The leader's estimated mean reward after each phase"),
        "listed": () if answer is None else answer.options[:_LISTED],
        "asked": sum(attempt.asked for attempt in record.attempts),
        "answered": sum(attempt.answered or 0 for attempt in record.attempts),
        "failed": sum(attempt.state == "failed" for attempt in record.attempts),
    }


def _phase(record: Record, phase: RecordedPhase) -> dict[str, Any]:
    plan = decode(phase.plan, Plan)
    release = None if phase.release is None else decode(phase.release, Release)
    names = [name_of(record.options, action) for action in plan.support]
    mechanism = {} if plan.mechanism is None else msgspec.to_builtins(plan.mechanism)
    return {
        "number": plan.phase,
        "plan": plan,
        "release": release,
        "mechanism": mechanism,
        "played": list(zip(names, plan.plays, strict=True)),
        "means": () if release is None else release.means,
        "mixed": bool(plan.mixing),
    }


def _figure(record: Record) -> Markup:
    answer = record.conclusion.answer
    if answer is None:
        return Markup("")
    bars = [
        Bar(
            name=one.option,
            low=one.low,
            middle=one.estimate,
            high=one.high,
            mark="best" if one.action == answer.action else "current" if one.option == answer.current else "",
        )
        for one in answer.options[:_DRAWN]
    ]
    return intervals(bars, "Estimated mean rewards with intervals, the highest estimate first")


def _course(record: Record) -> list[tuple[float, float, float]]:
    known = [one for one in record.progress if one.cohort]
    return [(one.interval[0], one.estimated_mean or 0.0, one.interval[1]) for one in known if one.interval]


@lru_cache(maxsize=1)
def _template() -> Any:
    return environment(Path(__file__).parent / "templates").get_template("report.html")


def environment(folder: Path) -> Environment:
    """Return a Jinja environment for templates. It escapes all values, and a missing value is an error.

    Args:
        folder: The folder of the templates.

    Returns:
        The environment, with the filters `count`, `number` and `short`.
    """
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters["count"] = lambda value: "–" if value is None else f"{value:,}"
    made.filters["number"] = _number
    made.filters["short"] = lambda value: value[:12]
    return made


def _number(value: float | None) -> str:
    return "–" if value is None or abs(value) == float("inf") else f"{value:.4g}"
