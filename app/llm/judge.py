"""Names that may be one thing, decided by a language model: many pairs in one call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.domain import Asked, Judgement, NameSaid
from app.llm.chat import ChatModel
from app.llm.dialects import Schema
from app.llm.lenient import values
from app.llm.thoughts import without_thoughts
from app.prompts import Prompts, fence

log = logging.getLogger("heliograph.llm")

SAID = 300  # characters of what is said of a name
TOKENS_A_PAIR = 24
THINKING = 2000

_VERDICT: Schema = {
    "type": "object",
    "properties": {
        "pair": {"type": "integer"},
        "answer": {"type": "string", "enum": ["same", "different", "unsure"]},
    },
    "required": ["pair", "answer"],
    "additionalProperties": False,
}
SCHEMA: Schema = {
    "type": "object",
    "properties": {"verdicts": {"type": "array", "items": _VERDICT}},
    "required": ["verdicts"],
    "additionalProperties": False,
}
_ANSWERS = {"same": True, "different": False}


class LlmJudge:
    """Port `Judge`. A pair that the reply leaves out, or answers in no known word, is unsure."""

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        self._model, self._prompts = model, prompts

    async def judge(self, asked: Sequence[Asked]) -> Judgement:
        listed = "\n\n".join(
            f"Pair {number}\n{fence(_lines(pair))}" for number, pair in enumerate(asked, start=1)
        )
        prompt = self._prompts.fill("judge", {"pairs": listed})
        completion = await self._model.complete(
            replace(prompt, max_tokens=TOKENS_A_PAIR * len(asked) + THINKING), SCHEMA
        )
        said = read_verdicts(completion.text)
        if not said:
            log.info("verdicts.unreadable model=%s pairs=%d", self._model.model, len(asked))
        verdicts = tuple(said.get(number) for number in range(1, len(asked) + 1))
        return Judgement(verdicts, completion.usage)


def _lines(pair: Asked) -> str:
    return "\n".join(f"{place}. {_line(said)}" for place, said in zip("AB", pair, strict=True))


def _line(said: NameSaid) -> str:
    kind = f" ({said.kind})" if said.kind else ""
    return " ".join(f"{said.name}{kind}: {said.description}".split())[:SAID]


def read_verdicts(reply: str) -> dict[int, bool | None]:
    """Pair number -> same, different, or unsure (None), of the last object that has any."""
    found: dict[int, bool | None] = {}
    for value in values(without_thoughts(reply)):
        items = value.get("verdicts", [value]) if isinstance(value, dict) else value
        for item in items if isinstance(items, list) else []:
            number = _number(item)
            if number:
                found[number] = _ANSWERS.get(str(item.get("answer", "")).strip().casefold())
    return found


def _number(item: Any) -> int:
    """0 for what is no verdict. Models write numbers as text, the tolerant reader as floats."""
    if not isinstance(item, dict) or "answer" not in item:
        return 0
    said = item.get("pair")
    if isinstance(said, float) and said.is_integer():
        said = int(said)
    digits = "" if isinstance(said, bool) else str(said).strip()
    return int(digits) if digits.isdecimal() and len(digits) < 6 else 0
