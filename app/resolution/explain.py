"""A decision on two names, in a sentence for people."""

from __future__ import annotations

from app.domain import Ruling
from app.resolution.model import Pair

_RELATIONS = {
    "known": "both are names that the world has for one thing",
    "defined": "a text states the one as another name of the other",
    "near": "they have the same words, but for their form and order",
    "initials": "one has initials where the other has first names",
    "safe_tail": "one has a word more that adds nothing",
    "acronym": "the letters of the one are the initials of the other",
    "middle": "one has names in between that the other leaves out",
    "chinese": "the one is written like a Chinese abbreviation of the other",
    "typo": "they differ as a slip of the pen does",
    "partial": "the one is a part of a person's full name",
    "near_1": "they are nearly the same word",
    "soft_tail": "one has a word more that may add nothing",
    "qualified": "one says more closely which is meant",
    "script": "they are written in different scripts",
    "contained": "all words of the one are in the other",
    "mixed": "they share a word",
    "none": "they share no word",
}
_ENDINGS = {
    "merge": "one thing", "ask": "perhaps one thing: apart until somebody decides",
    "apart": "two things",
}  # fmt: skip


def explanation(pair: Pair, decision: str, ruling: Ruling | None) -> str:
    """Who decided what, and why."""
    why = _RELATIONS.get(pair.relation, pair.relation)
    if ruling is not None:
        said = "one thing" if ruling.same else "two things"
        who = "A user" if ruling.by == "user" else "A language model"
        note = f" ({ruling.note})" if ruling.note else ""
        return f"{who} decided that they are {said}{note}. By the rules, {why}."
    if pair.veto:
        return f"Two things: {why}, but the {pair.veto} speaks against it."
    ending = _ENDINGS.get(decision, decision)
    return f"{ending[0].upper()}{ending[1:]}; {why} ({pair.score:.0f} points)."
