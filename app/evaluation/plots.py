"""Plots as SVG by hand: bars with intervals, recall by depth, recall by time. One accessible image
each, readable on light and dark pages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from app.evaluation.intervals import Interval

WIDTH, HEIGHT = 760, 360
LEFT, RIGHT, TOP, BOTTOM = 60, 170, 44, 48
ROW = 26  # pixels of a bar
LINE = 17  # and of a label
# Okabe and Ito (2008): told apart by most people, on white and on black.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8A8A8A", "#A6761D")
STYLE = """
svg { font: 13px system-ui, sans-serif; }
.ground { fill: #ffffff; } text { fill: #1f2328; } .quiet { fill: #59636e; }
.axis { stroke: #d1d9e0; } .whisker { stroke: #1f2328; }
@media (prefers-color-scheme: dark) {
  .ground { fill: #0d1117; } text { fill: #f0f6fc; } .quiet { fill: #9198a1; }
  .axis { stroke: #3d444d; } .whisker { stroke: #f0f6fc; }
}
"""

Points = Sequence[tuple[float, float]]


def bars(title: str, rows: Mapping[str, Interval]) -> str:
    """Shares (0 to 1) as bars from 0 to 100 %, best first, with their 95 % intervals."""
    ordered = sorted(rows.items(), key=lambda row: -row[1].value)
    left, height = 190, TOP + ROW * len(ordered) + 24
    span = WIDTH - left - 110
    parts = []
    for place, (label, found) in enumerate(ordered):
        y = TOP + ROW * place
        middle, low, high = (left + span * x for x in (found.value, found.low, found.high))
        size = f'width="{max(0.0, middle - left):.1f}" height="{ROW - 10}"'
        parts += [
            _text(left - 10, y + 14, _short(label, 24), anchor="end"),
            f'<rect x="{left}" y="{y + 3}" {size} rx="2" fill="{COLOURS[0]}"/>',
            f'<path class="whisker" d="M{low:.1f} {y + 11}H{high:.1f}M{low:.1f} {y + 7}v8'
            f'M{high:.1f} {y + 7}v8"/>',
            _text(max(high, middle) + 8, y + 15, f"{100 * found.value:.1f}", kind="quiet"),
        ]
    return _svg(title, height, parts)


def lines(title: str, across: str, series: Mapping[str, Points]) -> str:
    """Shares (0 to 1) over a few depths, a line for each mode."""
    xs = sorted({x for points in series.values() for x, _ in points})
    parts = _frame(across, [(_between(x, xs), f"{x:g}") for x in xs])
    ends = []
    for place, (label, points) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        dash = "" if place < len(COLOURS) else ' stroke-dasharray="5 4"'
        at = [(_x(_between(x, xs)), _y(y)) for x, y in points]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at]
        ends.append((at[-1][1], label, colour))
    return _svg(title, HEIGHT, parts + _labels(ends))


def scatter(title: str, across: str, points: Mapping[str, tuple[float, float]]) -> str:
    """Shares (0 to 1) by a positive quantity on a logarithmic axis, a dot for each mode."""
    ticks = _ticks([max(x, 0.01) for x, _ in points.values()])

    def along(x: float) -> float:
        return math.log(max(x, 0.01) / ticks[0]) / math.log(ticks[-1] / ticks[0])

    shown = [f"{tick:,.0f}" if tick >= 1 else f"{tick:g}" for tick in ticks]
    parts = _frame(across, [(along(tick), said) for tick, said in zip(ticks, shown, strict=True)])
    ends = []
    for place, (label, (quantity, y)) in enumerate(points.items()):
        colour, x = COLOURS[place % len(COLOURS)], _x(along(quantity))
        parts.append(f'<circle cx="{x:.1f}" cy="{_y(y):.1f}" r="5" fill="{colour}"/>')
        ends.append((_y(y), label, colour))
    return _svg(title, HEIGHT, parts + _labels(ends))


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2, 5, 10… around all values; of a long row every third, 1, 10, 100…"""
    series = [m * 10.0**e for e in range(-3, 13) for m in (1, 2, 5)]
    first = max(n for n, tick in enumerate(series) if tick <= min(values))
    last = min(n for n, tick in enumerate(series) if tick >= max(values))
    ticks = series[first : max(last, first + 1) + 1]
    if len(ticks) <= 9:
        return ticks
    first, last = first - first % 3, last + -last % 3
    return series[first : last + 1 : 3]


def _between(x: float, xs: Sequence[float]) -> float:
    """Place of a depth on an axis where steps are even."""
    return xs.index(x) / max(1, len(xs) - 1)


def _x(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _frame(across: str, ticks: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<path class="axis" d="M{LEFT} {_y(share):.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, _y(share) + 4, f"{100 * share:.0f}", "end", "quiet"))
    parts += [_text(_x(at), HEIGHT - BOTTOM + 18, said, "middle", "quiet") for at, said in ticks]
    return [*parts, _text(_x(0.5), HEIGHT - 10, across, "middle", "quiet")]


def _labels(ends: Sequence[tuple[float, str, str]]) -> list[str]:
    """Names at the right margin, in the order of their values, moved apart where they would
    overlap."""
    ordered = sorted(ends)
    places: list[float] = []
    for y, _, _ in ordered:
        places.append(max(y, TOP, places[-1] + LINE if places else 0))
    lowest = HEIGHT - 12.0
    for n in range(len(places) - 1, -1, -1):
        places[n] = min(places[n], lowest)
        lowest = places[n] - LINE
    parts = []
    for place, (_, label, colour) in zip(places, ordered, strict=True):
        parts.append(f'<circle cx="{WIDTH - RIGHT + 14}" cy="{place:.1f}" r="4" fill="{colour}"/>')
        parts.append(_text(WIDTH - RIGHT + 24, place + 4, _short(label, 20)))
    return parts


def _short(label: str, most: int) -> str:
    return label if len(label) <= most else f"{label[: most - 1]}…"


def _text(x: float, y: float, said: str, anchor: str = "start", kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{name}>{escape(said)}</text>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}">\n<style>{STYLE}</style>\n'
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>\n'
    )
    return head + "\n".join([_text(16, 24, title), *parts]) + "\n</svg>\n"
