"""Figures as SVG, without scripts and styles: colours come from the classes of the page that shows them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

from dpbandits.service.reporting._words import Party

_ROW = 26
_NAMES = 265  # width of the names in a figure of intervals
_WIDTH = 720


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One interval of a figure.

    Attributes:
        name: The name of the option.
        low: The lower end.
        middle: The estimate.
        high: The upper end.
        mark: The CSS class of the colour: `best`, `current` or empty.
    """

    name: str
    low: float
    middle: float
    high: float
    mark: str = ""


def intervals(bars: Sequence[Bar], title: str) -> Markup:
    """Draw intervals as horizontal lines with a dot at the estimate, on one scale.

    Args:
        bars: The intervals, from top to bottom.
        title: The accessible name of the figure.

    Returns:
        An `<svg>` element; empty without intervals.
    """
    if not bars:
        return Markup("")
    low, high = min(bar.low for bar in bars), max(bar.high for bar in bars)
    span = (high - low) or 1.0

    def across(value: float) -> float:
        return round(_NAMES + 10 + (value - low) / span * (_WIDTH - _NAMES - 30), 1)

    ticks = _ticks(low, high)
    bottom = len(bars) * _ROW + 12
    parts = [_opened(_WIDTH, bottom + 22, title)]
    for tick in ticks:
        x = across(tick)
        parts.append(f'<line class="grid" x1="{x}" y1="4" x2="{x}" y2="{bottom}"/>')
        parts.append(f'<text class="tick" x="{x}" y="{bottom + 15}" text-anchor="middle">{tick:g}</text>')
    for row, bar in enumerate(bars):
        y = row * _ROW + 18
        name = escape(bar.name if len(bar.name) <= 42 else bar.name[:41] + "…")
        parts.append(
            f'<g class="bar {bar.mark}">'
            f'<text class="name" x="{_NAMES}" y="{y + 4}" text-anchor="end">{name}</text>'
            f'<line class="range" x1="{across(bar.low)}" y1="{y}" x2="{across(bar.high)}" y2="{y}"/>'
            f'<circle cx="{across(bar.middle)}" cy="{y}" r="4.5"/></g>'
        )
    return Markup("".join(parts) + "</svg>")


def who_sees_what(found: Sequence[Party], title: str) -> Markup:
    """Draw the parties as boxes, with what each passes on written over the arrows.

    Args:
        found: The parties, from left to right.
        title: The accessible name of the figure.

    Returns:
        An `<svg>` element.
    """
    box, gap, top = 138, 118, 34
    width = len(found) * box + (len(found) - 1) * gap + 2
    parts = [_opened(width, 142, title)]
    for place, party in enumerate(found):
        x = place * (box + gap) + 1
        kind = "party noisy" if party.noise else "party"
        parts.append(f'<rect class="{kind}" x="{x}" y="{top}" width="{box}" height="46" rx="9"/>')
        middle = x + box / 2
        below = "noise is added here" if party.noise else ""
        name_at = top + (20 if below else 28)
        parts.append(
            f'<text class="party" x="{middle}" y="{name_at}" text-anchor="middle">{escape(party.name)}</text>'
        )
        parts.append(f'<text class="noise" x="{middle}" y="{top + 37}" text-anchor="middle">{below}</text>')
        for line, text in enumerate(_wrapped(f"sees {party.sees}", 24)):
            y = top + 64 + 14 * line
            parts.append(
                f'<text class="sees" x="{middle}" y="{y}" text-anchor="middle">{escape(text)}</text>'
            )
        if party.passes:
            parts += _arrow(x + box + 6, x + box + gap - 6, top + 23, party.passes)
    return Markup("".join(parts) + "</svg>")


def _arrow(begin: float, end: float, y: float, text: str) -> list[str]:
    lines = _wrapped(text, 17)
    middle, first = (begin + end) / 2, y - 8 - 13 * (len(lines) - 1)
    words = [
        f'<text class="flow" x="{middle}" y="{first + 13 * line}" text-anchor="middle">{escape(one)}</text>'
        for line, one in enumerate(lines)
    ]
    return [
        f'<path class="arrow" d="M{begin} {y}H{end - 7}m0 -4l7 4l-7 4z"/>',
        *words,
    ]


def _wrapped(text: str, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def over_phases(values: Sequence[tuple[float, float, float]], title: str) -> Markup:
    """Draw an interval per phase as a vertical line, and a line through the estimates.

    Args:
        values: For each phase, the lower end, the estimate and the upper end.
        title: The accessible name of the figure.

    Returns:
        An `<svg>` element; empty without values.
    """
    if not values:
        return Markup("")
    width, height, left = 720, 230, 60
    low, high = min(one[0] for one in values), max(one[2] for one in values)
    span = (high - low) or 1.0

    def up(value: float) -> float:
        return round(height - 34 - (value - low) / span * (height - 52), 1)

    def across(place: int) -> float:
        return round(left + (place + 0.5) * (width - left - 10) / len(values), 1)

    parts = [_opened(width, height, title)]
    for tick in _ticks(low, high):
        y = up(tick)
        parts.append(f'<line class="grid" x1="{left}" y1="{y}" x2="{width}" y2="{y}"/>')
        parts.append(f'<text class="tick" x="{left - 8}" y="{y + 4}" text-anchor="end">{tick:g}</text>')
    points = [(across(place), up(one[1])) for place, one in enumerate(values)]
    for (x1, y1), (x2, y2) in pairwise(points):
        parts.append(f'<line class="through" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>')
    for place, (bottom, _middle, top) in enumerate(values):
        x, y = points[place]
        parts.append(
            f'<g class="bar best"><line class="range" x1="{x}" y1="{up(bottom)}" x2="{x}" y2="{up(top)}"/>'
            f'<circle cx="{x}" cy="{y}" r="4.5"/></g>'
            f'<text class="tick" x="{x}" y="{height - 10}" text-anchor="middle">phase {place + 1}</text>'
        )
    return Markup("".join(parts) + "</svg>")


def _ticks(low: float, high: float) -> list[float]:
    """Return three to eight round numbers between two numbers, or one number if the two are equal."""
    span = high - low
    if span <= 0:
        return [round(low, 6)]
    power = 10.0 ** math.floor(math.log10(span))
    step = next(power * part for part in (2.0, 1.0, 0.5, 0.2) if span >= 3 * power * part)
    # The margin keeps a tick that equals an end up to rounding.
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(step * one, 12) for one in range(first, last + 1)]


def _opened(width: float, height: float, title: str) -> str:
    return (
        f'<svg class="figure" role="img" viewBox="0 0 {width:g} {height:g}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(title)}</title>"
    )
