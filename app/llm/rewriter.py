"""Questions rewritten by a language model: passages to search with, and queries in its place.

Passages after HyDE (Gao et al. 2022, arXiv 2212.10496), queries after RQ-RAG (Chan et al. 2024,
arXiv 2404.00610), which trained a model for it; here a general one is told to. All passages come
from one call: models at temperature 0 would write the same one again, and the prompt is paid once.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard

from app.domain import Completion, Passages, Prompt, Queries, Question, Rewriting, Turn
from app.llm.chat import ChatModel
from app.llm.dialects import Schema
from app.llm.lenient import values
from app.llm.reader import read_text, refuses
from app.llm.roles import KEYWORD_HISTORY, THINKING
from app.llm.thoughts import without_thoughts
from app.prompts import Prompts, fence

log = logging.getLogger("heliograph.llm")

MOST_QUERIES = 4
PASSAGE_TOKENS = 250  # of reply for each passage
QUERY_TOKENS = 300
ANSWER_TOKENS = 60
LONGEST_PASSAGE = 2000  # characters; what is longer is cut
LONGEST_QUERY = 500
LONGEST_ANSWER = 200
TURN_TOKENS = 200  # of an earlier message that are shown
TEXT_TOKENS = 500  # of a passage to find a short answer in

_TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
PASSAGES_SCHEMA: Schema = {
    "type": "object",
    "properties": {"passages": _TEXTS},
    "required": ["passages"],
    "additionalProperties": False,
}
QUERIES_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": [kind.value for kind in Rewriting]},
        "queries": _TEXTS,
    },
    "required": ["kind", "queries"],
    "additionalProperties": False,
}
ANSWER_SCHEMA: Schema = {
    "type": "object",
    "properties": {"answer": {"type": "string"}},
    "required": ["answer"],
    "additionalProperties": False,
}
_APART = "Each query stands alone: it names what it is about, without referring to another query."
_IN_TURN = (
    "A query that needs the answer of an earlier one names it by its number: `#1` is the answer "
    'to the first, as in "Where was #1 born?". All others stand alone.'
)
_PASSAGES = ("passages", "passage", "hypothetical_passages", "documents", "document", "texts")
_QUERIES = (
    "queries", "sub_questions", "subquestions", "sub_queries", "subqueries", "questions", "query",
    "rewritten_query", "rewrite",
)  # fmt: skip
_WITHIN = ("text", "passage", "content", "query", "question", "sub_question")  # of a listed object
_ANSWERS = ("answer", "short_answer", "value")
_LISTED = re.compile(r"^\s{0,8}(?:\d{1,2}[.)]|[-*•])\s+(\S.*)$", re.MULTILINE)
_NO_ANSWER = re.compile(r"(?:unknown|none|null|n/?a|no answer|not (?:stated|given|found))\.?", re.I)


class LlmRewriter:
    """Port `Rewriter`."""

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        self._model, self._prompts = model, prompts

    def version(self, prompt: str) -> str:
        """For cache keys."""
        return f"{self._model.model}:{self._prompts.digest(prompt)}"

    def read_turns(self, question: Question) -> Sequence[Turn]:
        """The part of the conversation that a reply depends on."""
        return question.history[-KEYWORD_HISTORY:]

    async def passages(self, question: Question, *, count: int) -> Passages:
        fields = {**self._asked(question), "count": str(count)}
        completion = await self._ask("hyde", fields, PASSAGES_SCHEMA, count * PASSAGE_TOKENS)
        found = read_passages(completion.text)[:count]
        if not found:
            log.info("passages.unreadable model=%s", self._model.model)
        return Passages(found, completion.usage)

    async def queries(self, question: Question, *, sequential: bool) -> Queries:
        references = _IN_TURN if sequential else _APART
        fields = {**self._asked(question), "most": str(MOST_QUERIES), "references": references}
        completion = await self._ask("decompose", fields, QUERIES_SCHEMA, QUERY_TOKENS)
        found = read_queries(completion.text, question.text)
        if found is None:
            log.info("queries.unreadable model=%s", self._model.model)
            return Queries(usage=completion.usage, readable=False)
        return replace(found, usage=completion.usage)

    async def short_answer(self, query: str, texts: Sequence[str]) -> Completion:
        cut = [self._model.tokenizer.cut(text, TEXT_TOKENS) for text in texts]
        fields = {"passages": "\n\n".join(map(fence, cut)), "question": fence(query)}
        completion = await self._ask("bridge", fields, ANSWER_SCHEMA, ANSWER_TOKENS)
        return replace(completion, text=read_answer(completion.text))

    async def _ask(
        self, name: str, fields: dict[str, str], schema: Schema, tokens: int
    ) -> Completion:
        prompt: Prompt = replace(self._prompts.fill(name, fields), max_tokens=tokens + THINKING)
        return await self._model.complete(prompt, schema)

    def _asked(self, question: Question) -> dict[str, str]:
        said = "\n".join(
            f"{turn.role}: {self._model.tokenizer.cut(turn.content, TURN_TOKENS)}"
            for turn in self.read_turns(question)
        )
        return {
            "conversation": f"The conversation before:\n{fence(said)}" if said else "",
            "question": fence(question.text),
        }


def read_passages(reply: str) -> tuple[str, ...]:
    """Of the last object that has any; prose is one passage, as models write it that were told to
    write a passage. A refusal is none."""
    found: tuple[str, ...] = ()
    for value in values(without_thoughts(reply)):
        found = _distinct(_texts_of(value, _PASSAGES), LONGEST_PASSAGE) or found
    prose = read_text(reply)
    if not found and not prose.startswith(("{", "[", "`")) and not refuses(reply):
        found = _distinct([prose], LONGEST_PASSAGE)
    return found


def read_queries(reply: str, question: str) -> Queries | None:
    """Of the last object that has any, or of the lines of a list; None if the reply says nothing of
    the kind. Queries that are the question again are left out."""
    found: Queries | None = None
    for value in values(without_thoughts(reply)):
        texts = _texts_of(value, _QUERIES)
        said = value.get("kind") if isinstance(value, dict) else None
        if texts or said is not None:
            found = _queries(str(said), texts, question)
    if found is None and not refuses(reply):
        listed = _LISTED.findall(read_text(reply))
        found = _queries("", listed, question) if listed else None
    return found


def read_answer(reply: str) -> str:
    """ "" where the model does not say, or says too much for an answer to search with."""
    objects = list(values(without_thoughts(reply)))
    texts = [text for value in objects for text in _texts_of(value, _ANSWERS)]
    said = texts[-1] if texts else "" if objects else read_text(reply)
    answer = " ".join(said.split())
    if len(answer) > LONGEST_ANSWER or _NO_ANSWER.fullmatch(answer) or refuses(answer):
        return ""
    return answer


def _queries(said: str, texts: Sequence[str], question: str) -> Queries:
    asked = " ".join(question.split()).casefold()
    kept = [text for text in _distinct(texts, LONGEST_QUERY) if text.casefold() != asked]
    kept = kept[:MOST_QUERIES]
    known = {kind.value: kind for kind in Rewriting}
    kind = known.get(said.strip().casefold())
    if not kept:
        kind = Rewriting.NONE
    elif kind in (None, Rewriting.NONE):
        kind = Rewriting.DECOMPOSE if len(kept) > 1 else Rewriting.REWRITE
    return Queries(kind or Rewriting.NONE, tuple(kept))


def _texts_of(value: object, keys: Sequence[str]) -> list[str]:
    """Strings under the first of the keys that is there; of a bare list, its items."""
    if isinstance(value, dict):
        lowered = {str(key).strip().casefold(): item for key, item in value.items()}
        value = next((lowered[key] for key in keys if key in lowered), None)
    items = value if isinstance(value, list) else [value]
    found = []
    for item in items:
        text = next((item[key] for key in _WITHIN if key in item), "") if _is_object(item) else item
        if isinstance(text, str):
            found.append(text)
    return found


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _distinct(texts: Iterable[str], longest: int) -> tuple[str, ...]:
    """On one line each, and what has a letter or digit."""
    lines = (" ".join(text.split())[:longest] for text in texts)
    return tuple(dict.fromkeys(line for line in lines if re.search(r"\w", line)))
