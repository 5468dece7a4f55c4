"""The findings of an experiment as plain values: tables, curves, and checks of the paper's statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AGREES, DIFFERS, OPEN = "agrees", "differs", "not judged"
SCOPES = ("tight", "paper")

Cell = str | int | float | None


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table.

    Attributes:
        name: The last part of its file name.
        title: The title.
        columns: The headings.
        rows: The cells.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A mean as a function of x, with a band of one standard deviation over the runs.

    Attributes:
        label: The label in the legend.
        x: The x values.
        mean: The mean at each x.
        deviation: The standard deviation at each x, or None for no band.
        colour: The colour of the line.
        dashes: The line style.
        in_legend: Whether the legend shows the curve.
    """

    label: str
    x: tuple[float, ...]
    mean: tuple[float, ...]
    deviation: tuple[float, ...] | None = None
    colour: str = "#000000"
    dashes: str = "-"
    in_legend: bool = True


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Several curves in one frame.

    Attributes:
        title: The title.
        x_label: The label of the x axis.
        y_label: The label of the y axis.
        curves: The curves.
        x_scale: `linear` or `log`.
        y_scale: `linear` or `log`.
    """

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_scale: str = "linear"
    y_scale: str = "linear"


@dataclass(frozen=True, kw_only=True)
class Check:
    """One statement of the paper, compared with our numbers.

    Attributes:
        statement: What the paper says.
        verdict: `agrees`, `differs` or `not judged`.
        found: Our numbers.
        why: Why the numbers differ from the statement; empty if they do not.
        scope: The preset; empty if the statement does not depend on the preset.
    """

    statement: str
    verdict: str
    found: str
    why: str = ""
    scope: str = ""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """The findings of one experiment.

    Attributes:
        tables: The tables.
        panels: The panels of its figure.
        checks: The checks.
    """

    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    checks: tuple[Check, ...]

    def verdicts(self, scope: str) -> list[str]:
        """Return the verdicts of the checks of a preset, and of those that do not depend on the preset.

        Args:
            scope: The preset.
        """
        return [check.verdict for check in self.checks if check.scope in ("", scope)]


def overall(verdicts: Sequence[str]) -> str | None:
    """Combine the verdicts of several checks into one.

    Args:
        verdicts: The verdicts.

    Returns:
        `differs` if at least one differs, otherwise `agrees` if at least one agrees, otherwise `not judged`.
        `differs in part` means that others agree, and `agrees in part` means that others were not judged.
        None if there are no verdicts.
    """
    found = set(verdicts)
    if DIFFERS in found:
        return f"{DIFFERS} in part" if AGREES in found else DIFFERS
    if AGREES in found:
        return f"{AGREES} in part" if OPEN in found else AGREES
    return OPEN if found else None
