"""Takes a model's reasoning off its reply: only what stands at the very start is reasoning; the
same tags later on are text that the model quotes."""

from __future__ import annotations

import re

_TAGS = "think|thinking|thought|thoughts|reasoning|scratchpad"
_OPEN = re.compile(rf"\s*<({_TAGS})>", re.IGNORECASE)
_LONE_CLOSE = re.compile(r"</(?:think|thinking)>", re.IGNORECASE)
_INNER_OPEN = re.compile(r"<(?:think|thinking)>", re.IGNORECASE)
_LONGEST_OPEN = len("<scratchpad>")


def without_thoughts(reply: str) -> str:
    """The reply after the reasoning block(s) at its start; "" if such a block never ends.

    Where the opening tag is part of the prompt (some chat templates), only the closing one shows.
    """
    place = 0
    while opening := _OPEN.match(reply, place):
        end = re.compile(rf"</{opening[1]}>", re.IGNORECASE).search(reply, opening.end())
        if not end:
            return ""
        place = end.end()
    if not place:
        close = _LONE_CLOSE.search(reply)
        if close and not _INNER_OPEN.search(reply, 0, close.start()):
            place = close.end()
    return reply[place:].lstrip() if place else reply


class ThoughtFilter:
    """The same for a stream: feed pieces, get those that belong to the answer."""

    def __init__(self) -> None:
        self._held = ""
        self._closing: str | None = None
        self._passing = False

    def feed(self, piece: str) -> str:
        if self._passing:
            return piece
        self._held += piece
        while True:
            if self._closing is None:
                opening = _OPEN.match(self._held)
                if not opening:
                    return self._release()
                self._closing = f"</{opening[1].lower()}>"
                self._held = self._held[opening.end() :]
            end = self._held.lower().find(self._closing)
            if end < 0:
                # Enough of the tail stays to recognise a tag that arrives in two pieces.
                self._held = self._held[-len(self._closing) :]
                return ""
            self._held = self._held[end + len(self._closing) :].lstrip()
            self._closing = None

    def finish(self) -> str:
        """What is still held back at the end of the stream; nothing if it ended in thoughts."""
        held = "" if self._closing else self._held
        self._held, self._passing = "", True
        return held

    def _release(self) -> str:
        start = self._held.lstrip()
        may_open = len(start) < _LONGEST_OPEN and any(
            f"<{tag}>".startswith(start.lower()) for tag in _TAGS.split("|")
        )
        if may_open:
            return ""
        self._passing = True
        held, self._held = start, ""
        return held
