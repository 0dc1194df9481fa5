"""What `check` finds: one difference, and what is done about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

Area = Literal["graph", "vectors", "blobs", "queue"]
Action = Literal[
    "refold", "recount", "recount name", "totals", "reindex", "erase", "curate", "delete blob",
    "reopen", "drop steps", "give job", "send", "nothing",
]  # fmt: skip

DOES: dict[Action, str] = {
    "refold": "its evidence is made anew from what it says",
    "recount": "it is counted anew from its evidence",
    "recount name": "it is counted anew from mentions, and decided anew if that changes it",
    "totals": "they are counted anew",
    "reindex": "its vector is made anew by a worker",
    "erase": "it is deleted",
    "curate": "a job of the workspace is opened for it",
    "delete blob": "it is deleted",
    "reopen": "it is ended, and another one opened for the same",
    "drop steps": "they are deleted",
    "give job": "it gets one, and work that waits is begun again",
    "send": "it is sent to the queue again",
    "nothing": "no repair: upload the document again",
}


class Difference(NamedTuple):
    """`subject` is what the action is about: an id, a key with its kind, or nothing."""

    area: Area
    what: str
    action: Action
    subject: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.area}: {self.what} ({DOES[self.action]})"
