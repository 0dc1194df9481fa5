"""SVG by hand, for the plots of the pages that the benches write."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path


def text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'


def write(path: Path, width: float, height: float, parts: Sequence[str]) -> None:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="#fff"/>'
    )
    path.write_text("\n".join([head, *parts, "</svg>", ""]), encoding="utf-8")
