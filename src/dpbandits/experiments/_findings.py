"""What an experiment finds: tables, curves, and checks of what the paper says, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AGREES, DIFFERS, OPEN = "agrees", "differs", "not judged"
SCOPES = ("tight", "paper")

Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of cells under headings; `name` ends the name of its file."""

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A mean against x, with the standard deviation over the runs that is drawn as a band."""

    label: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...] | None = None
    colour: str = "#000000"
    dashes: str = "-"
    in_legend: bool = True


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves in one frame."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_scale: str = "linear"
    y_scale: str = "linear"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One statement of the paper held against our numbers; `why` says why they differ, if they do.

    `scope` is the preset it is about; empty where the preset plays no part.
    """

    statement: str
    verdict: str
    found: str
    why: str = ""
    scope: str = ""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """Everything that one experiment found."""

    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    checks: tuple[Check, ...]

    def verdicts(self, scope: str) -> list[str]:
        """Of the checks of a preset."""
        return [check.verdict for check in self.checks if check.scope in ("", scope)]


def overall(verdicts: Sequence[str]) -> str | None:
    """Of several together; `in part` where some differ and some agree, or some were not judged."""
    found = set(verdicts)
    if DIFFERS in found:
        return f"{DIFFERS} in part" if AGREES in found else DIFFERS
    if AGREES in found:
        return f"{AGREES} in part" if OPEN in found else AGREES
    return OPEN if found else None
