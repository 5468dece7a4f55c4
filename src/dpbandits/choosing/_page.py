"""The result of `choose` as HTML: one file without scripts or links to other files. All text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbandits.choosing._found import Found

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222 }
table { border-collapse: collapse; margin: 1em 0 } th, td { padding: .2em .8em; text-align: right }
th:first-child, td:first-child { text-align: left } thead { border-bottom: 1px solid #888 }
"""
_DRAWN = 30  # options in the drawing
_LEFT, _WIDTH, _STEP = 260, 460, 22  # pixels: names, intervals, one option


def page(found: Found) -> str:
    """Return a whole HTML document."""
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(found.best)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(found.best)}</h1>",
        summary(found),
        "<h2>Options</h2>",
        drawing(found),
        option_table(found),
        *(["<h2>Effects of the features</h2>", effect_table(found)] if found.effects else []),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def summary(found: Found) -> str:
    """Return the lines of a result as an HTML definition list."""
    items = "".join(f"<dt><b>{escape(name)}</b></dt><dd>{escape(text)}</dd>" for name, text in found.lines)
    return f"<dl>{items}</dl>"


def option_table(found: Found, most: int | None = None) -> str:
    """Return a table of the options; if `most` is given, of the first `most` options."""
    rows = [
        (one.option, one.estimate, one.low, one.high, one.behind, one.behind_low, one.behind_high)
        for one in found.options[:most]
    ]
    return _table(("option", "mean reward", "low", "high", "behind the best", "low", "high"), rows)


def effect_table(found: Found) -> str:
    """Return a table of the effects in the user's units."""
    rows = [(one.term, one.estimate, one.low, one.high) for one in found.effects]
    return _table(("term", "effect", "low", "high"), rows)


def _table(head: Sequence[str], rows: Sequence[tuple[str, *tuple[float | None, ...]]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = [
        "<tr><td>"
        + escape(name)
        + "</td>"
        + "".join(f"<td>{'' if number is None else format(number, '.4g')}</td>" for number in numbers)
        + "</tr>"
        for name, *numbers in rows
    ]
    return f"<table><thead><tr>{titles}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def drawing(found: Found) -> str:
    """Return an SVG drawing with the intervals of the first 30 options."""
    shown = found.options[:_DRAWN]
    low, high = min(one.low for one in shown), max(one.high for one in shown)
    scale = _WIDTH / ((high - low) or 1.0)
    height = _STEP * (len(shown) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _WIDTH + 20}" height="{height}" '
        f'role="img" aria-label="Intervals of the mean rewards" font-size="13">'
    ]
    for place, one in enumerate(shown):
        y = _STEP * place + 14
        left, right, middle = ((end - low) * scale + _LEFT for end in (one.low, one.high, one.estimate))
        middle = min(max(middle, _LEFT), _LEFT + _WIDTH)
        colour = "#0b6" if one.option == found.best else "#555"
        parts.append(
            f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(_short(one.option))}</text>'
        )
        parts.append(
            f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
            f'<circle cx="{middle:.1f}" cy="{y}" r="4" fill="{colour}"/>'
        )
    base = height - 4
    parts.append(f'<text x="{_LEFT}" y="{base}">{low:.3g}</text>')
    parts.append(f'<text x="{_LEFT + _WIDTH}" y="{base}" text-anchor="end">{high:.3g}</text></svg>')
    return "".join(parts)


def _short(text: str, longest: int = 38) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
