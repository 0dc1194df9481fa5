"""Whole characters of a reply. Servers write JSON, whose escapes can name half a character: when a
stream is cut between the halves of an emoji, say, or where a model was cut off within one."""

from __future__ import annotations


def whole(text: str) -> str:
    """Halves joined where both are there, U+FFFD for one that is alone."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Halves:
    """Keeps the first half of a character back until the piece that has the other."""

    def __init__(self) -> None:
        self._first = ""

    def feed(self, piece: str) -> str:
        text = self._first + piece
        self._first = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return whole(text.removesuffix(self._first) if self._first else text)

    def finish(self) -> str:
        rest, self._first = whole(self._first), ""
        return rest
