"""How a stage's work is cut into steps, and how references are written in them."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain import Kind, Ref


def shards(items: Sequence[str], size: int) -> list[list[str]]:
    """In order, at most `size` each; none without items."""
    return [list(items[i : i + size]) for i in range(0, len(items), size)]


def coded(ref: Ref) -> str:
    return f"{ref.kind}:{ref.key}"


def decoded(code: str) -> Ref:
    kind, _, key = code.partition(":")
    return Ref(Kind(kind), key)
