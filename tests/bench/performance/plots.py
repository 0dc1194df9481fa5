"""Growth as SVG: a figure over the number of documents, both by powers of ten."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench import svg

COLOURS = ("#1d6fb8", "#d98c3f", "#3c8d5a", "#b3261e", "#7d5ba6", "#5d6b78")
WIDTH, HEIGHT, LEFT, TOP, LEGEND = 520, 230, 64, 34, 190
Points = Sequence[tuple[float, float]]


def curves(title: str, series: Mapping[str, Points], path: Path) -> None:
    """Points (documents, value), values above zero; each series a line with its name."""
    points = [one for some in series.values() for one in some]
    if not points:
        return
    across = _powers([x for x, _ in points])
    up = _powers([y for _, y in points])
    parts = [svg.text(LEFT, 18, title)]
    for power in range(across[0], across[1] + 1):
        x = _place(10.0**power, across, LEFT, LEFT + WIDTH)
        parts += [_line(x, TOP, x, TOP + HEIGHT, "#e3e6ea")]
        parts += [svg.text(x, TOP + HEIGHT + 18, f"{10**power:,}", anchor="middle")]
    for power in range(up[0], up[1] + 1):
        y = _place(10.0**power, up, TOP + HEIGHT, TOP)
        parts += [_line(LEFT, y, LEFT + WIDTH, y, "#e3e6ea")]
        parts += [svg.text(LEFT - 8, y + 4, f"{10.0**power:,.12g}", anchor="end")]
    for n, (name, some) in enumerate(series.items()):
        colour = COLOURS[n % len(COLOURS)]
        at = [
            (_place(x, across, LEFT, LEFT + WIDTH), _place(y, up, TOP + HEIGHT, TOP))
            for x, y in sorted(some)
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts += [f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>']
        for (x, y), (size, value) in zip(at, sorted(some), strict=True):
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                f"<title>{size:,.0f} documents: {value:,.3g}</title></circle>"
            ]
        y = TOP + 14 + 18 * n
        parts += [_line(LEFT + WIDTH + 14, y - 4, LEFT + WIDTH + 30, y - 4, colour)]
        parts += [svg.text(LEFT + WIDTH + 36, y, name)]
    svg.write(path, LEFT + WIDTH + LEGEND, TOP + HEIGHT + 32, parts)


def _powers(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _place(value: float, powers: tuple[int, int], low: float, high: float) -> float:
    share = (math.log10(value) - powers[0]) / (powers[1] - powers[0])
    return low + share * (high - low)


def _line(x: float, y: float, to_x: float, to_y: float, colour: str) -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}" '
        'stroke-width="1.5"/>'
    )
