"""Evaluations' own role, played by a language model: compares answers, thinks up questions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from app.domain import Compared, Completion, Prompt, Proposed
from app.errors import BadModelOutput
from app.llm.chat import ChatModel
from app.llm.dialects import Schema
from app.llm.lenient import values
from app.llm.reader import read_text, refuses
from app.llm.thoughts import without_thoughts
from app.prompts import Prompts, fence

log = logging.getLogger("heliograph.llm")

THINKING = 2000  # tokens of reply left to models that think aloud first
VERDICT_TOKENS = 120  # a criterion
LINE_TOKENS = 120
DESCRIPTION_TOKENS = 400
PROMPTS = ("compare", "describe", "propose-users", "propose-tasks", "propose-questions")
_BETTER = {"1": 1, "answer 1": 1, "2": 2, "answer 2": 2, "tie": 0, "equal": 0, "neither": 0}
_STRINGS: Schema = {"type": "array", "items": {"type": "string"}}
COMPARE_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "criterion": {"type": "string"},
                    "reason": {"type": "string"},
                    "better": {"type": "string", "enum": ["1", "2", "tie"]},
                },
                "required": ["criterion", "reason", "better"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["verdicts"],
    "additionalProperties": False,
}


class LlmReferee:
    """Port `Referee`."""

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        self._model, self._prompts = model, prompts

    @property
    def model(self) -> str:
        return self._model.model

    @property
    def prompts(self) -> Mapping[str, str]:
        return {name: self._prompts.digest(name) for name in PROMPTS}

    async def compare(
        self, question: str, first: str, second: str, criteria: Mapping[str, str]
    ) -> Compared:
        frame = self._compared(question, "", "", criteria)
        room = max(64, (self._model.prompt_room - self._model.tokens(frame)) // 2 - 32)
        one, two = (self._model.tokenizer.cut(answer, room) for answer in (first, second))
        prompt = self._compared(question, one, two, criteria)
        limit = VERDICT_TOKENS * len(criteria) + THINKING
        completion = await self._model.complete(replace(prompt, max_tokens=limit), COMPARE_SCHEMA)
        better = read_better(completion.text, criteria)
        if not better:
            log.info("comparison.unreadable model=%s", self._model.model)
        return Compared(better, completion.usage)

    def _compared(
        self, question: str, first: str, second: str, criteria: Mapping[str, str]
    ) -> Prompt:
        return self._prompts.fill(
            "compare",
            {
                "criteria": "\n".join(f"- {name}: {means}" for name, means in criteria.items()),
                "first": next(iter(criteria)),
                "question": fence(question),
                "one": fence(first),
                "two": fence(second),
            },
        )

    async def describe(self, samples: Sequence[str]) -> Completion:
        tokenizer, shown = self._model.tokenizer, ""
        room = self._model.prompt_room - 400  # what the prompt itself needs, amply
        each = max(32, room // max(1, len(samples)) - 16)
        pieces = [fence(tokenizer.cut(sample, each)) for sample in samples]
        shown = tokenizer.cut("\n\n".join(pieces), room)
        prompt = self._prompts.fill("describe", {"samples": shown})
        completion = await self._model.complete(
            replace(prompt, max_tokens=DESCRIPTION_TOKENS + THINKING)
        )
        text = read_text(completion.text)
        if not text or refuses(text):
            raise BadModelOutput("the model does not describe the collection")
        return replace(completion, text=tokenizer.cut(text, DESCRIPTION_TOKENS))

    async def propose(
        self, what: Literal["users", "tasks", "questions"], about: Mapping[str, str], count: int
    ) -> Proposed:
        told = {name: fence(text) for name, text in about.items()}
        prompt = self._prompts.fill(f"propose-{what}", {"count": str(count), **told})
        schema: Schema = {
            "type": "object", "properties": {what: _STRINGS}, "required": [what],
            "additionalProperties": False,
        }  # fmt: skip
        completion = await self._model.complete(
            replace(prompt, max_tokens=LINE_TOKENS * count + THINKING), schema
        )
        lines = read_lines(completion.text, what)
        if not lines:
            raise BadModelOutput(f"the model names no {what}")
        return Proposed(tuple(lines[:count]), completion.usage)


def read_better(reply: str, criteria: Mapping[str, str]) -> dict[str, int]:
    """Criterion -> 1, 2 or 0 (tie); the last word on a criterion counts. Also read: an object with
    the criteria as keys."""
    names = {_plain(name): name for name in criteria}
    found: dict[str, int] = {}
    for value in values(without_thoughts(reply)):
        for name, said in _verdicts(value):
            better = _BETTER.get(_plain(said).strip(" .\"'"))
            if _plain(name) in names and better is not None:
                found[names[_plain(name)]] = better
    return found


def _verdicts(value: object) -> list[tuple[object, object]]:
    """Pairs of a criterion and a verdict, wherever they stand."""
    if isinstance(value, list):
        return [pair for item in value for pair in _verdicts(item)]
    if not isinstance(value, dict):
        return []
    if "criterion" in value:
        return [(value["criterion"], _said(value))]
    pairs: list[tuple[object, object]] = []
    for name, inner in value.items():
        if isinstance(inner, dict) and "criterion" not in inner and _said(inner) is not None:
            pairs.append((name, _said(inner)))
        elif isinstance(inner, dict | list):
            pairs += _verdicts(inner)
        else:
            pairs.append((name, inner))
    return pairs


def _said(verdict: Mapping[Any, Any]) -> object:
    return next((verdict[name] for name in ("better", "winner") if name in verdict), None)


def _plain(said: object) -> str:
    if isinstance(said, float) and said.is_integer():  # the tolerant reader knows no integers
        said = int(said)
    return " ".join(str(said).split()).casefold().replace("answer1", "1").replace("answer2", "2")


def read_lines(reply: str, what: str) -> list[str]:
    """Strings of the last list that has any, in order, each once; a key of that name is not
    needed, and what is listed may be objects with one text."""
    found: list[str] = []
    for value in values(without_thoughts(reply)):
        inner = (
            value.get(what, next(iter(value.values()), [])) if isinstance(value, dict) else value
        )
        if isinstance(inner, list):
            lines = [" ".join(text.split()) for item in inner if (text := _line(item))]
            found = list(dict.fromkeys(line for line in lines if line)) or found
    return found


def _line(item: object) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, dict):
        return ": ".join(text for text in item.values() if isinstance(text, str))
    return ""
