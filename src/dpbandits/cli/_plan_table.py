"""The table of `dpbandits plan`: one row per trust model, ε and schedule."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from dpbandits.cli._modes import shown_mode
from dpbandits.cli._noises import shown_noises
from dpbandits.cli._output import cover_note, provenance
from dpbandits.cli._reach import shown_reach
from dpbandits.cli._terminal import console
from dpbandits.simulation import Setting

_SHOWN = 6  # the most phases that are listed one by one
_WIDTH = 200  # of the table, if standard output is not a terminal
NEVER = "these settings will never eliminate an action"
_HEADINGS = ("ε", "schedule", "cohorts", "rounds", "participants", "until sure", "report",
             "first elimination", "predicted regret", "median", "finds the best", "gap of the choice",
             "simulated",
             "at most, w.h.p.", "communication")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Row:
    """One schedule at one ε. Figures are None if the population is too small, or if nothing was simulated."""

    schedule: str
    trust: str
    epsilon: float | None
    participants: int
    phases: int
    cohorts: list[int]
    """Clients per phase."""
    lengths: list[int]
    """The least number of rounds of each of these phases."""
    population: int | None = None
    """The number of clients, if it is too small for this row."""
    until_sure: float | None = None
    """Expected participants until the study is sure or has asked everybody; None without a confidence."""
    chance_of_sure: float | None = None
    """The probability that one action is left, or the choice is within `--gap`; None without a confidence."""
    predicted_regret: float | None = None
    """The mean over the drawn parameters."""
    predicted_median: float | None = None
    chance_of_best: float | None = None
    """The probability that the choice at the end is the best action."""
    expected_gap: float | None = None
    """The expected gap of that choice."""
    simulated_regret: float | None = None
    bound_on_regret: float | None = None
    report_bytes: int | None = None
    """The bytes of one report of the first phase; None if no client is asked."""
    communication: float | None = None
    unit: str | None = None
    first_elimination: int | None = None
    noise: str | None = None
    """The noise of the first phase; None without privacy, or if no client is asked."""
    noises: dict[str, float] = field(default_factory=dict)
    """The predicted error of each noise that could be used there; empty if the request names a noise."""
    deviation: float | None = None
    """The standard deviation that this noise adds to a mean of the first phase."""
    least_deviation: float | None = None
    """The least such deviation of any unbiased reports; None outside the local model."""
    reach: dict[str, float | None] | None = None
    """How far one lying client can move a mean of the first phase; None if no client is asked."""
    modes: list[dict[str, Any]] = field(default_factory=list)
    """Reach, bytes and processor time per report of the first phase in each mode of the shuffler."""
    cover_loss: float = 0.0
    """Upper bound on the loss to the best point of a covered continuous set, over all rounds, if ‖θ*‖ = 1."""

    @property
    def refused(self) -> bool:
        """Whether the population is too small for this row."""
        return self.population is not None

    @property
    def never_eliminates(self) -> bool:
        """Whether no phase is expected to eliminate an action."""
        return not self.refused and self.first_elimination is None

    @property
    def name(self) -> str:
        """The trust model, the schedule and ε."""
        return f"{self.trust}, {self.schedule}" + (
            "" if self.epsilon is None else f" at ε = {self.epsilon:.3g}"
        )


def show(rows: list[Row], setting: Setting) -> None:
    """Print the table, and notes about its rows."""
    show_line = console(_WIDTH).print
    actions = setting.instance(0).actions
    trusts = list(dict.fromkeys(row.trust for row in rows))
    title = (
        f"{provenance(setting)}{', '.join(trusts)}, {setting.horizon:,} rounds, "
        f"{actions.count:,} actions in R^{actions.dimension}"
    )
    table = Table(title=title, title_justify="left")
    # A column that is empty in every row, such as that of simulated runs, is left out.
    columns = zip(("trust", *_HEADINGS), *([row.trust, *_cells(row)] for row in rows), strict=True)
    shown = [
        column for column in columns if {*column[1:]} != {"–"} and (len(trusts) > 1 or column[0] != "trust")
    ]
    for heading, *_ in shown:
        table.add_column(heading, justify="left" if heading in ("trust", "schedule") else "right")
    for cells in zip(*(column[1:] for column in shown), strict=True):
        table.add_row(*cells)
    show_line(table)
    note = cover_note(max(row.cover_loss for row in rows))
    if note is not None:
        show_line(note)
    for row in rows:
        for text in _notes(row):
            show_line(text)


def _cells(row: Row) -> list[str]:
    elimination = "never" if row.first_elimination is None else f"phase {row.first_elimination}"
    if row.refused:
        elimination = "too few clients"
    return [
        "–" if row.epsilon is None else f"{row.epsilon:.3g}",
        row.schedule,
        _listed(row.cohorts),
        _listed(row.lengths),
        f"{row.participants:,}",
        "–" if row.until_sure is None else f"{row.until_sure:,.0f} ({row.chance_of_sure:.0%} sure)",
        "–" if row.report_bytes is None else f"{row.report_bytes:,} B",
        elimination if row.first_elimination is not None else f"[bold red]{elimination}[/]",
        _amount(row.predicted_regret),
        _amount(row.predicted_median),
        "–" if row.chance_of_best is None else f"{row.chance_of_best:.1%}",
        "–" if row.expected_gap is None else f"{row.expected_gap:.2g}",
        _amount(row.simulated_regret),
        _amount(row.bound_on_regret),
        "–" if row.communication is None else f"{row.communication:,.0f} {row.unit}",
    ]


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _listed(numbers: list[int]) -> str:
    """All numbers if there are few; otherwise the first, the last and their count."""
    if len(numbers) <= _SHOWN:
        return " ".join(f"{number:,}" for number in numbers) or "–"
    return f"{numbers[0]:,} … {numbers[-1]:,} ({len(numbers)})"


def _notes(row: Row) -> list[str]:
    """Sentences about a row that do not fit into the table."""
    if row.refused:
        return [f"{row.name}: needs {row.participants:,} clients, but the population has {row.population:,}."]
    notes = list[str]()
    if row.noise in row.noises:
        notes.append(f"{row.name}, first cohort: {shown_noises(row.noises, row.noise)}")
    if row.least_deviation is not None:
        notes.append(
            f"{row.name}, first cohort: privacy adds an error of {row.deviation:.4g} to each mean; without "
            f"trust in anybody, no unbiased report can have less than {row.least_deviation:.4g}"
        )
    if row.reach is not None:
        notes.append(f"{row.name}, first cohort: {shown_reach(row.reach, row.trust)}")
    notes += [f"{row.name}, mode {shown_mode(entry)}" for entry in row.modes]
    if row.never_eliminates:
        notes.append(
            f"{row.name}: {NEVER}. More participants, a larger ε, a trust model with less noise (central or "
            "shuffle), a smaller bound, or fewer dimensions would change that."
        )
    return notes
