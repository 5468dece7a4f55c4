"""The values that the template of each page shows: numbers of the API, and numbers computed from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np

from dpbandits.answers import Answer, OptionResult
from dpbandits.protocol import Plan, Progress
from dpbandits.service.dashboard._health import cards
from dpbandits.service.dashboard._snapshot import Snapshot
from dpbandits.service.reporting import Bar, intervals, parties, promise, who_is_protected_from, who_sees_what
from dpbandits.service.wire import Place, ReportSlot, hashed

PAGE = 50  # options on one page
_COMPARED = 6  # the most options that are compared
_LEADERS = 8  # options in the figure of the overview

Query = dict[str, list[str]]
Values = dict[str, Any]


def overview(snapshot: Snapshot, _query: Query) -> Values:
    """The guarantee, the recommended option, and what the study waits for."""
    model, privacy = snapshot.study.privacy.trust_model, snapshot.study.privacy
    found, last = parties(model, snapshot.terms.mode), snapshot.progress[-1] if snapshot.progress else None
    answer = snapshot.analysis.answer
    return {
        "answer": answer,
        "last": last,
        "leader": "" if last is None else snapshot.label(last.leader),
        "guarantee": None if snapshot.analysis.results is None else snapshot.analysis.results.guarantee,
        "results": snapshot.analysis.results,
        "picture": who_sees_what(found, "Who sees what"),
        "parties": found,
        "promise": promise(privacy.epsilon, privacy.delta) if model.private else "",
        "protects": who_is_protected_from(model),
        "figure": intervals(
            [_bar(snapshot, one) for one in _leaders(answer)],
            "Estimated mean rewards of the leading options, with intervals",
        ),
        "asked": sum(attempt.joined for attempt in snapshot.attempts),
        "share": _share(snapshot),
    }


def _leaders(answer: Answer | None) -> list[OptionResult]:
    """Return the leading options and the one in use today, if its interval is known."""
    if answer is None:
        return []
    behind = [one for one in answer.options[_LEADERS:] if one.option == answer.current]
    return [*answer.options[:_LEADERS], *behind]


def _share(snapshot: Snapshot) -> tuple[int, int, str] | None:
    """Return the progress of the current attempt, its goal and its unit; None if it has none or is secret."""
    status = snapshot.status
    if status.state == "gathering":
        return status.joined, status.cohort, "clients have joined"
    if status.state == "playing" and snapshot.plans:
        return snapshot.attempts[-1].played, snapshot.plans[-1].rounds, "rounds are played"
    if status.state in ("collecting", "closed") and status.reports is not None:
        return status.reports, status.joined, "clients have reported"
    return None


def _bar(snapshot: Snapshot, one: OptionResult) -> Bar:
    answer = snapshot.analysis.answer
    best = answer is not None and one.action == answer.action
    mark = "best" if best else "current" if answer is not None and one.option == answer.current else ""
    return Bar(name=one.option, low=one.low, middle=one.estimate, high=one.high, mark=mark)


@dataclass(frozen=True, kw_only=True)
class OptionRow:
    """One option of the page Options; `found` has its interval, if it was computed."""

    action: int
    name: str
    estimate: float | None
    found: OptionResult | None
    dropped: int
    left: bool


class _Rows:
    """All options in the order of their estimates. Rows are made one by one: there may be a million."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        found = snapshot.analysis
        self.scores = found.scores
        self.order = np.arange(snapshot.study.actions.count) if found.order is None else found.order
        self._known = {} if found.answer is None else {one.action: one for one in found.answer.options}
        self.dropped = snapshot.analysis.dropped

    def row(self, action: int) -> OptionRow:
        phase = 0 if self.dropped is None else int(self.dropped[action])
        known = self._known.get(action)
        left = known.may_be_best if known is not None else phase == 0
        estimate = None if self.scores is None else float(self.scores[action])
        name = self._snapshot.label(action)
        return OptionRow(action=action, name=name, estimate=estimate, found=known, dropped=phase, left=left)


def options(snapshot: Snapshot, query: Query) -> Values:
    """The options that the query searches, filters and pages, and a comparison of some options."""
    rows = _Rows(snapshot)
    text, show = _one(query, "q")[:200], _one(query, "show") or "all"
    order = rows.order
    if show in ("left", "dropped") and rows.dropped is not None:
        gone = rows.dropped[order] > 0
        order = order[gone if show == "dropped" else ~gone]
    if text:
        order = _searched(snapshot, order, text)
    last = max(0, (len(order) - 1) // PAGE)
    page = min(last, _whole(_one(query, "page")) or 0)
    chosen = [found for one in query.get("c", [])[:_COMPARED] if (found := _whole(one)) is not None]
    compared = [rows.row(one) for one in chosen if one < snapshot.study.actions.count]
    answer = snapshot.analysis.answer
    bars = [_bar(snapshot, one.found) for one in compared if one.found is not None]
    return {
        "rows": [rows.row(int(one)) for one in order[page * PAGE : (page + 1) * PAGE]],
        "matching": len(order),
        "q": text,
        "show": show,
        "page": page,
        "pages": last + 1,
        "compared": compared,
        "chosen": chosen,
        "comparison": intervals(bars, "Mean rewards of the compared options, with intervals"),
        "answer": answer,
        "link": lambda **changes: _link({"q": text, "show": show, "c": chosen, "page": page, **changes}),
        "analysed": rows.dropped is not None,
        "address": "options" + _link({"q": text, "show": show, "c": chosen, "page": page}),
    }


def _searched(snapshot: Snapshot, order: Any, text: str) -> Any:
    wanted = text.lower()
    if snapshot.options is None:
        number = wanted.removeprefix("action").strip()
        return np.array([int(number)]) if number.isdecimal() and int(number) in order else order[:0]
    labels = snapshot.options.labels
    return np.array([one for one in order if wanted in labels[int(one)].lower()], dtype=np.int64)


def _link(values: dict[str, Any]) -> str:
    kept = {name: value for name, value in values.items() if value not in ("", "all", 0, [])}
    return "?" + urlencode(kept, doseq=True)


def _one(query: Query, name: str) -> str:
    return query.get(name, [""])[0]


def _whole(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 10 else None


def over_time(snapshot: Snapshot, _query: Query) -> Values:
    """Intervals of the leader, options left, participants and bytes per phase, and the prediction."""
    known = [one for one in snapshot.progress if one.cohort]
    sizes = {plan.phase: _report_bytes(snapshot, plan) for plan in snapshot.plans}
    planned = _planned(snapshot)
    rows = [
        {
            "progress": one,
            "leader": snapshot.label(one.leader),
            "bytes": one.reports * sizes.get(one.phase, 0),
        }
        for one in known
    ]
    return {
        "rows": rows,
        "charts": _charts(known, planned) if known else [],
        "prediction": snapshot.analysis.prediction,
        "last": snapshot.progress[-1] if snapshot.progress else None,
        "planned": planned[-1] if planned else 0,
    }


def _charts(known: list[Progress], planned: list[int]) -> list[Values]:
    phases = [one.phase for one in known]
    interval = {
        "low": [one.interval[0] if one.interval else None for one in known],
        "high": [one.interval[1] if one.interval else None for one in known],
        "estimate": [one.estimated_mean for one in known],
    }
    clients = {
        "asked": [one.clients_asked for one in known],
        "planned": [planned[one.phase - 1] if one.phase <= len(planned) else None for one in known],
    }
    left = {"options left": [one.actions_left for one in known]}
    return [
        _chart("Mean reward of the leader, with its interval", "mean reward", phases, interval, band=True),
        _chart("Options that may still be best", "options", phases, left),
        _chart("Clients asked so far, against the plan", "clients", phases, clients),
    ]


def _report_bytes(snapshot: Snapshot, plan: Plan) -> int:
    """Return the length of the request body of a report: all its parts, sealed."""
    if plan.mechanism is None:
        return 0
    place = Place.of(snapshot.study.name, plan, 1, hashed(""))  # the length is the same in every place
    return ReportSlot(plan=plan, place=place, mode=snapshot.terms.mode).body_size


def _planned(snapshot: Snapshot) -> list[int]:
    schedule = snapshot.study.schedule
    phases = schedule.reporting_phases(snapshot.study.horizon)
    return [int(one) for one in np.cumsum([schedule.cohort(phase) for phase in range(1, phases + 1)])]


def _chart(
    title: str,
    unit: str,
    x: Sequence[float],
    series: dict[str, Any],
    *,
    band: bool = False,
    log: bool = False,
    xlabel: str = "phase",
) -> Values:
    return {
        "title": title,
        "data": {
            "unit": unit,
            "x": list(x),
            "names": list(series),
            "series": list(series.values()),
            "band": band,
            "log": log,
            "xlabel": xlabel,
        },
    }


def privacy(snapshot: Snapshot, _query: Query) -> Values:
    """What each party has seen, the ledger's counts, δ(ε), and what a smaller ε would have cost."""
    model = snapshot.study.privacy.trust_model
    released = [one for one in snapshot.progress if one.cohort]
    curves = snapshot.analysis.curves
    chart = None
    if curves:
        epsilons = [point[0] for point in curves[0][1]]
        lines = {
            f"phase {phase}": [max(point[1], 1e-300) if point[1] > 0 else None for point in curve]
            for phase, curve in curves
        }
        chart = _chart("δ(ε) of each phase", "δ", epsilons, lines, log=True, xlabel="ε")
    population = snapshot.study.population
    asked = sum(attempt.joined for attempt in snapshot.attempts)
    return {
        "model": model,
        "request": snapshot.study.privacy,
        "guarantee": None if snapshot.analysis.results is None else snapshot.analysis.results.guarantee,
        "parties": parties(model, snapshot.terms.mode),
        "asked": asked,
        "answered": sum(one.reports for one in released),
        "left": None if population is None else population - asked,
        "released": released,
        "attempts": snapshot.attempts,
        "counts": {one.phase: one.reports for one in released},
        "curve": chart,
        "costs": snapshot.analysis.costs,
        "protects": who_is_protected_from(model),
        "mechanisms": [plan for plan in snapshot.plans if plan.mechanism is not None],
    }


def health(snapshot: Snapshot, _query: Query) -> Values:
    """The checks."""
    return {"cards": cards(snapshot)}


VIEWS: dict[str, tuple[str, Callable[[Snapshot, Query], Values]]] = {
    "overview": ("Overview", overview),
    "options": ("Options", options),
    "time": ("Over time", over_time),
    "privacy": ("Privacy", privacy),
    "health": ("Health", health),
}
"""The title of each page and the function that makes its values, by the last part of its address."""
