"""Plots as SVG, drawn by hand: bars by set, and differences with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from app.evaluation.intervals import Interval
from tests.bench.svg import text, write

COLOURS = {
    "bm25": "#9aa5b1", "dense": "#c5ccd3", "naive": "#7f9fc6", "mix": "#1d6fb8",
    "lightrag-hku": "#d98c3f",
}  # fmt: skip
BAR, GAP, HEIGHT, LEFT = 16, 26, 220, 44
ROW, LABEL, SCALE = 18, 270, 3.2  # scale: pixels a point


def bars(groups: Sequence[tuple[str, Mapping[str, float]]], path: Path) -> None:
    """Recall@5 in per cent; one group of bars a set."""
    parts: list[str] = []
    x = float(LEFT)
    for label, values in groups:
        begin = x
        for name, value in values.items():
            high = HEIGHT * value / 100
            parts.append(
                f'<rect x="{x:.0f}" y="{HEIGHT + 10 - high:.1f}" width="{BAR - 2}" '
                f'height="{high:.1f}" fill="{COLOURS[name]}">'
                f"<title>{escape(f'{label}, {name}: {value:.1f}')}</title></rect>"
            )
            x += BAR
        middle = (begin + x) / 2
        parts.append(text(middle, HEIGHT + 28, label, anchor="middle"))
        x += GAP
    grid = [
        f'<line x1="{LEFT}" x2="{x:.0f}" y1="{HEIGHT + 10 - HEIGHT * at / 100:.0f}" '
        f'y2="{HEIGHT + 10 - HEIGHT * at / 100:.0f}" stroke="#e3e6ea"/>'
        + text(LEFT - 6, HEIGHT + 14 - HEIGHT * at / 100, str(at), anchor="end")
        for at in (0, 25, 50, 75, 100)
    ]
    legend = [
        f'<rect x="{LEFT + 120 * n}" y="{HEIGHT + 44}" width="12" height="12" fill="{colour}"/>'
        + text(LEFT + 120 * n + 18, HEIGHT + 54, name)
        for n, (name, colour) in enumerate(COLOURS.items())
    ]
    write(path, max(x, LEFT + 620), HEIGHT + 66, [*grid, *parts, *legend])


def forest(rows: Sequence[tuple[str, str, Interval]], path: Path) -> None:
    """A line a pair: the difference in points with its 95 % interval."""
    low = min((100 * one.low for _, _, one in rows), default=0.0)
    zero = LABEL + SCALE * max(10.0, -low + 5)
    height = ROW * len(rows) + 40
    parts = [
        f'<line x1="{zero + SCALE * at:.0f}" x2="{zero + SCALE * at:.0f}" y1="6" '
        f'y2="{height - 24}" stroke="{"#555" if at == 0 else "#e3e6ea"}"/>'
        + text(zero + SCALE * at, height - 8, f"{at:+d}" if at else "0", anchor="middle")
        for at in range(-10, 81, 10)
    ]
    for n, (label, name, one) in enumerate(rows):
        y = 16 + ROW * n
        left, right = (zero + SCALE * 100 * value for value in (one.low, one.high))
        colour = "#1d6fb8" if one.low > 0 else "#b3261e" if one.high < 0 else "#666"
        parts += [
            text(LABEL - 8, y + 4, f"{label}: mix − {name}", anchor="end"),
            f'<line x1="{left:.1f}" x2="{right:.1f}" y1="{y}" y2="{y}" stroke="{colour}" '
            'stroke-width="2"/>',
            f'<circle cx="{zero + SCALE * 100 * one.value:.1f}" cy="{y}" r="4" fill="{colour}">'
            f"<title>{100 * one.value:+.1f}</title></circle>",
        ]
    write(path, zero + SCALE * 85, height, parts)
