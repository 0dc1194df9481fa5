"""Pages that the benches write: a text by hand with places for tables, and the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


def filled(template: Path, parts: Mapping[str, Iterable[str]]) -> str:
    """The text with the lines of each part in place of `{{name}}`."""
    text = template.read_text(encoding="utf-8")
    for name, lines in parts.items():
        text = text.replace(f"{{{{{name}}}}}", "\n".join(lines).strip("\n"))
    return text


def head(*cells: str) -> Iterator[str]:
    yield row(*cells)
    yield row(*("---" for _ in cells))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
