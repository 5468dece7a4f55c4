"""Table 2: communication and participants of DPE, LinUCB and PE."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpbandits.experiments._comparison import ALPHAS, HORIZON, outcomes, works
from dpbandits.experiments._curves import median_and_range, moments
from dpbandits.experiments._experiment import Experiment, Results, Scale
from dpbandits.experiments._findings import AGREES, DIFFERS, Cell, Check, Curve, Findings, Panel, Table
from dpbandits.experiments._models import COLOURS, PRESETS

_DPE = tuple(f"DPE α = {alpha:g}" for alpha in ALPHAS)
_NAMES = (*_DPE, "LinUCB", "PE")
# The numbers of the paper. Participants are exact; the communication is rounded to hundreds.
PARTICIPANTS = dict(zip(_NAMES, (437, 997, 2321, 5532, 13381, HORIZON, HORIZON), strict=True))
COMMUNICATION = dict(zip(_NAMES, (7_000, 8_100, 10_500, 16_900, 32_700, 50_000, 50_000), strict=True))


def examine(results: Results, scale: Scale) -> Findings:
    """Return both costs together with those of the paper."""
    found = {preset: outcomes(results, scale, preset) for preset in PRESETS}
    rows = [_row(preset, name, runs) for preset, own in found.items() for name, runs in own.items()]
    columns = (
        "preset", "algorithm", "participants", "participants, paper", "with reports used",
        "communication, median", "least", "largest", "communication, paper",
    )  # fmt: skip
    title = f"Costs of {HORIZON:,} rounds; communication in numbers sent"
    table = Table(name="costs", title=title, columns=columns, rows=tuple(rows))
    checks = [check for preset, own in found.items() for check in _checks(preset, own, scale)]
    return Findings(tables=(table,), panels=(_panel(found),), checks=tuple(checks))


def _row(preset: str, name: str, runs: list[Any]) -> tuple[Cell, ...]:
    people = int(np.median([participants(name, run) for run in runs]))
    used = int(np.median([run.participants for run in runs]))
    spent = median_and_range([sent(name, run) for run in runs])
    return (preset, name, people, PARTICIPANTS[name], used, *spent, COMMUNICATION[name])


def participants(name: str, run: Any) -> int:
    """Return the number of participants. PE has one per round, also in the phase that the horizon cuts."""
    return int(run.rounds if name == "PE" else run.participants)


def sent(name: str, run: Any) -> int:
    """Return how many numbers were sent; in PE, one per participant."""
    return int(run.rounds if name == "PE" else run.communication)


def _panel(found: dict[str, dict[str, list[Any]]]) -> Panel:
    printed = tuple(COMMUNICATION[name] for name in _DPE)
    curves = [Curve(label="the paper's numbers", x=ALPHAS, mean=printed, dashes=":")]
    for (preset, own), colour in zip(found.items(), (COLOURS["central"], COLOURS["local"]), strict=True):
        spent = [np.array([run.communication for run in own[name]]) for name in _DPE]
        curves.append(moments(f"{preset}, mean over {len(spent[0])} instances", ALPHAS, spent, colour=colour))
    return Panel(
        title="Communication of DPE", x_label="α", y_label="numbers sent", y_scale="log", curves=tuple(curves)
    )


def _checks(preset: str, found: dict[str, list[Any]], scale: Scale) -> list[Check]:
    people = {name: {participants(name, run) for run in runs} for name, runs in found.items()}
    exact = all(counts == {PARTICIPANTS[name]} for name, counts in people.items())
    spent = {name: [sent(name, run) for run in runs] for name, runs in found.items()}
    outside = [name for name, sums in spent.items() if not min(sums) <= COMMUNICATION[name] <= max(sums)]
    most = max(max(spent[name]) for name in _DPE)
    return [
        Check(
            statement="the number of participants is that of the paper, in every run",
            verdict=AGREES if exact else DIFFERS,
            found=", ".join(f"{name} {'/'.join(map(str, sorted(c)))}" for name, c in people.items()),
            scope=preset,
        ),
        scale.check(
            "the paper's communication lies within our range over instances",
            not outside,
            f"outside: {', '.join(outside) or 'none'}",
            why=_why(preset),
            scope=preset,
        ),
        scale.check(
            "DPE always sends less than LinUCB and PE",
            most < HORIZON,
            f"at most {most:,} against {HORIZON:,} numbers",
            why=_why(preset),
            scope=preset,
        ),
    ]


def _why(preset: str) -> str:
    if preset == "tight":
        return (
            "`tight` uses a larger support (designs with g ≤ 1.3 r instead of 2 r, about twice the rank "
            "instead of once the rank), which costs communication and reduces regret."
        )
    return (
        "A client sends one number per supported action: about the rank of the active set, and one number "
        "once a single action is left. So the sum depends on the phase in which the last actions are "
        "dropped, that is, on the gaps of the instance, which is not given."
    )


EXPERIMENT = Experiment(
    name="table-2",
    title="Table 2: communication and participants",
    statement=(
        "DPE needs fewer participants and sends fewer numbers than LinUCB and PE for every α. "
        "Participants: 437, 997, 2321, 5532, 13381 for α = 0.5 … 0.9, against 50,000. Communication: "
        "0.70, 0.81, 1.05, 1.69, 3.27 against 5.00 · 10⁴."
    ),
    choices=(
        f"T = {HORIZON:,}. A phase that the horizon cuts does not report; this follows from the number of "
        "participants in the paper.",
        "Communication counts the real numbers that clients send, as the paper defines C(T); LinUCB and "
        "PE send one per round.",
        "The users of PE are counted as in the paper, one per round. About half of them play in the phase "
        "that the horizon cuts, and their reports are not used.",
        "Each run draws its own actions and θ*: median and range are over instances.",
    ),
    works=works,
    examine=examine,
)
