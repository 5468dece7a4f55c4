"""The report: one self-contained HTML page, without other files or network access."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Sequence
from html import escape

from dpbandits.experiments._drawing import draw
from dpbandits.experiments._findings import OPEN, SCOPES, Cell, Check, Panel, Table, overall
from dpbandits.experiments._running import Item
from dpbandits.experiments._stylesheet import STYLE


def report(items: Sequence[Item], *, command: str, version: str) -> str:
    """Return the report as an HTML page.

    Args:
        items: The experiments that were run, with their findings.
        command: The command that produced the report.
        version: The version of dpbandits.
    """
    body = "\n".join([_header(items, command, version), _summary(items), *map(_section, items)])
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>dpbandits: the paper, reproduced</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def prose(text: str) -> str:
    """Escape a text; words in backticks become code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _header(items: Sequence[Item], command: str, version: str) -> str:
    scale = items[0].scale
    quick = " This is a quick set: statements about averages are shown but not judged." if scale.quick else ""
    return (
        "<header>\n<h1>Distributed linear bandits with differential privacy: what can be "
        f"reproduced</h1>\n<p>Simulated with dpbandits {escape(version)}, {scale.runs} runs of each "
        f"setting, by <code>{escape(command)}</code>.{quick}</p>\n<p>Everything is run in two presets. "
        "<code>tight</code> is the default of this library: noise is calibrated exactly to the stated "
        "(ε, δ), and widths are computed from the noise that was added. <code>paper</code> uses the "
        "constants of the paper. Bands in figures are one standard deviation over the runs.</p>\n</header>"
    )


def _summary(items: Sequence[Item]) -> str:
    heads = "".join(f"<th><code>{scope}</code></th>" for scope in SCOPES)
    rows = "\n".join(_summary_row(item) for item in items)
    return (
        '<section id="summary">\n<h2>Contents and summary</h2>\n'
        '<nav aria-label="items">\n<div class="wide"><table>\n'
        f"<thead><tr><th>item</th>{heads}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table></div>\n</nav>\n</section>"
    )


def _summary_row(item: Item) -> str:
    link = f'<a href="#{escape(item.experiment.name)}">{prose(item.experiment.title)}</a>'
    cells = "".join(f"<td>{_tally(item, scope)}</td>" for scope in SCOPES)
    return f"<tr><td>{link}</td>{cells}</tr>"


def _tally(item: Item, scope: str) -> str:
    """Return the verdict, and the number of checks behind it."""
    verdicts = item.findings.verdicts(scope)
    verdict = overall(verdicts)
    if verdict is None:
        return "–"
    counted = ", ".join(f"{count} {name}" for name, count in Counter(verdicts).items())
    return f"{_badge(verdict)}<br><small>{escape(counted)}</small>"


def _badge(verdict: str) -> str:
    kind = verdict.split()[0] if verdict != OPEN else "open"
    return f'<span class="badge {kind}">{escape(verdict)}</span>'


def _section(item: Item) -> str:
    experiment = item.experiment
    choices = "\n".join(f"<li>{prose(choice)}</li>" for choice in experiment.choices)
    tables = "\n".join(_table(table) for table in item.findings.tables)
    return (
        f'<section id="{escape(experiment.name)}">\n<h2>{prose(experiment.title)}</h2>\n'
        f"<h3>The paper</h3>\n<p>{prose(experiment.statement)}</p>\n"
        f"<h3>Ours</h3>\n{_figure(item.findings.panels)}\n{_checks(item.findings.checks)}\n"
        f"<h3>What we chose</h3>\n<ul>\n{choices}\n</ul>\n{tables}\n"
        '<p><a href="#summary">back to the summary</a></p>\n</section>'
    )


def _figure(panels: Sequence[Panel]) -> str:
    """Return one picture per panel, so that a narrow screen shows them below each other."""
    if not panels:
        return "<p>There is nothing to draw.</p>"
    pictures = [(panel.title, base64.b64encode(draw([panel])["svg"]).decode()) for panel in panels]
    images = "\n".join(
        f'<img src="data:image/svg+xml;base64,{data}" alt="{escape(title)}">' for title, data in pictures
    )
    return f"<figure>\n{images}\n</figure>"


def _checks(checks: Sequence[Check]) -> str:
    if not checks:
        return "<p>There is nothing to judge.</p>"
    rows = "\n".join(_check(check) for check in checks)
    return (
        '<div class="wide"><table class="checks">\n<thead><tr><th>preset</th><th>verdict</th>'
        "<th>the paper says</th><th>we find</th></tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody>\n</table></div>"
    )


def _check(check: Check) -> str:
    why = f"<br><em>Why:</em> {prose(check.why)}" if check.why else ""
    return (
        f"<tr><td><code>{escape(check.scope or 'both')}</code></td><td>{_badge(check.verdict)}</td>"
        f"<td>{prose(check.statement)}</td><td>{prose(check.found)}{why}</td></tr>"
    )


def _table(table: Table) -> str:
    heads = "".join(f"<th>{prose(column)}</th>" for column in table.columns)
    rows = "\n".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>" for row in table.rows)
    return (
        f'<details>\n<summary>{prose(table.title)}</summary>\n<div class="wide"><table>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>\n</details>"
    )


def _cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return f"<td>{prose(cell)}</td>"
    return f'<td class="number">{shown(cell)}</td>'


def shown(cell: float | int | None) -> str:
    """Format a number with four significant digits, or as a whole number if it is 1,000 or more."""
    if cell is None:
        return "–"
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    return f"{cell:.4g}"
