"""Profiler, keyworder and answerer played by a language model: prompt in, typed result out."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace

from app.domain import Completion, Context, Keywords, Prompt, Question, Source, Turn, Usage
from app.errors import BadModelOutput, Invalid
from app.llm.chat import ChatModel
from app.llm.dialects import Schema
from app.llm.reader import read_keywords, read_text, refuses
from app.prompts import Prompts, fence
from app.together import together

log = logging.getLogger("heliograph.llm")

THINKING = 2000  # tokens of reply left to models that think aloud first
KEYWORD_TOKENS = 200
KEYWORD_HISTORY = 4  # turns that may tell what the question refers to
HISTORY_SHARE = 4  # of the prompt, one part in so many may be conversation
SUMMARY_INPUT = 12_000  # tokens of descriptions in one call, at most; longer lists are map-reduced
MAX_DEPTH = 4  # divisions of one such call
SHORTEST_HALVED = 1000  # characters; a single description below that is not cut further

_WORDS = {"type": "array", "items": {"type": "string"}}
KEYWORD_SCHEMA: Schema = {
    "type": "object",
    "properties": {"high_level_keywords": _WORDS, "low_level_keywords": _WORDS},
    "required": ["high_level_keywords", "low_level_keywords"],
    "additionalProperties": False,
}


class LlmProfiler:
    """Port `Profiler`. Descriptions beyond one call's room are summarised in parts, the parts
    again."""

    by_model = True

    def __init__(self, model: ChatModel, prompts: Prompts, *, language: str = "") -> None:
        self._model, self._prompts, self._language = model, prompts, language

    async def summarise(self, name: str, descriptions: Sequence[str], *, limit: int) -> Completion:
        usage = Usage()
        parts = list(descriptions)
        while True:
            groups = self._groups(name, parts, limit)
            async with together() as tasks:
                made = [tasks.create_task(self._summary(name, group, limit)) for group in groups]
            for task in made:
                usage += task.result().usage
            parts = [task.result().text for task in made]
            if len(parts) == 1:
                return replace(made[0].result(), usage=usage)

    async def _summary(
        self, name: str, descriptions: Sequence[str], limit: int, depth: int = 0
    ) -> Completion:
        """In one call; where the server finds that too long, of halves, and of their summaries."""
        prompt = self._prompt(name, descriptions, limit)
        try:
            completion = await self._model.complete(prompt)
        except Invalid:
            smaller = _halves(descriptions)
            if not smaller or depth == MAX_DEPTH:
                raise
            log.info("summary.divided model=%s parts=%d", self._model.model, len(descriptions))
            return await self._of_halves(name, smaller, limit, depth + 1)
        text = self._model.tokenizer.cut(read_text(completion.text), limit).rstrip()
        if not text:
            raise BadModelOutput("the model's summary is empty")
        if refuses(text):
            raise BadModelOutput("the model refuses to summarise", code="model_refused")
        return replace(completion, text=text)

    async def _of_halves(
        self, name: str, halves: Sequence[Sequence[str]], limit: int, depth: int
    ) -> Completion:
        made = [await self._summary(name, half, limit, depth) for half in halves]
        usage = sum((one.usage for one in made), Usage())
        whole = made[0]
        if len(made) > 1:
            whole = await self._summary(name, [one.text for one in made], limit, depth)
            usage += whole.usage
        return replace(whole, usage=usage)

    def _groups(self, name: str, descriptions: Sequence[str], limit: int) -> list[list[str]]:
        """In order, each as large as one call allows; at least halving what was several."""
        tokenizer = self._model.tokenizer
        frame = self._model.tokens(self._prompt(name, [""], limit))
        room = max(min(self._model.prompt_room - frame, SUMMARY_INPUT), 2 * limit + 16)
        groups: list[list[str]] = [[]]
        used = 0
        for description in descriptions:
            text = tokenizer.cut(description, room // 2 - 8)
            size = tokenizer.count(text) + 8
            if groups[-1] and used + size > room:
                groups.append([])
                used = 0
            groups[-1].append(text)
            used += size
        return groups

    def _prompt(self, name: str, descriptions: Sequence[str], limit: int) -> Prompt:
        spoken = f"Write in {self._language}." if self._language else (
            "Write in the language of most of the descriptions."
        )  # fmt: skip
        listed = "\n".join(f"- {' '.join(text.split())}" for text in descriptions)
        filled = self._prompts.fill(
            "summarise",
            {
                "limit": str(limit),
                "words": str(limit * 2 // 3),
                "language": spoken,
                "name": " ".join(name.split()),
                "descriptions": fence(listed),
            },
        )
        return replace(filled, max_tokens=2 * limit + THINKING)


def _halves(descriptions: Sequence[str]) -> list[Sequence[str]]:
    """Two halves of a list; of a single description the first half; nothing of a short one."""
    middle = len(descriptions) // 2
    if middle:
        return [descriptions[:middle], descriptions[middle:]]
    [only] = descriptions
    return [[only[: len(only) // 2]]] if len(only) > SHORTEST_HALVED else []


class LlmKeyworder:
    """Port `Keyworder`. A reply without keywords gives none: the query itself then retrieves."""

    by_model = True

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        self._model, self._prompts = model, prompts

    @property
    def version(self) -> str:
        """For cache keys."""
        return f"{self._model.model}:{self._prompts.digest('keywords')}"

    def read_turns(self, question: Question) -> Sequence[Turn]:
        """The part of the conversation that the reply depends on."""
        return question.history[-KEYWORD_HISTORY:]

    async def keywords(self, question: Question) -> Keywords:
        completion = await self._model.complete(self._prompt(question), KEYWORD_SCHEMA)
        found = read_keywords(completion.text)
        if found is None:
            log.info("keywords.unreadable model=%s", self._model.model)
            return Keywords(usage=completion.usage)
        return replace(found, usage=completion.usage)

    def _prompt(self, question: Question) -> Prompt:
        said = "\n".join(
            f"{turn.role}: {self._model.tokenizer.cut(turn.content, 200)}"
            for turn in self.read_turns(question)
        )
        filled = self._prompts.fill(
            "keywords",
            {
                "conversation": f"The conversation before:\n{fence(said)}" if said else "",
                "question": question.text,
            },
        )
        return replace(filled, max_tokens=KEYWORD_TOKENS + THINKING)


class LlmAnswerer:
    """Port `Answerer`."""

    def __init__(self, model: ChatModel, prompts: Prompts) -> None:
        self._model, self._prompts = model, prompts

    @property
    def model(self) -> str | None:
        return self._model.model

    async def answer(
        self, question: Question, context: Context
    ) -> AsyncGenerator[str | Usage, None]:
        async with aclosing(self._model.stream(self._prompt(question, context))) as pieces:
            async for piece in pieces:
                yield piece

    async def complete(self, prompt: Prompt) -> Completion:
        completion = await self._model.complete(prompt)
        return replace(completion, text=read_text(completion.text))

    def _prompt(self, question: Question, context: Context) -> Prompt:
        """Within the model's room: sources give way from the last, conversation from the first."""
        room = self._model.prompt_room
        history = _latest(question.history, room // HISTORY_SHARE, self._model)
        sources = len(context.sources)
        while True:
            shown = replace(context, sources=context.sources[:sources])
            prompt = replace(self._filled(question, shown), history=history)
            excess = self._model.tokens(prompt) - room
            if excess <= 0 or not sources:
                return prompt
            log.warning("context.cut model=%s sources=%d", self._model.model, sources)
            sources -= 1

    def _filled(self, question: Question, context: Context) -> Prompt:
        language = question.language or "the language of the question"
        return self._prompts.fill(
            "answer",
            {
                "language": f"Answer in {language}.",
                "form": f"Form of the answer: {question.response_type}."
                if question.response_type
                else "Be as brief as the question allows, and as long as it needs.",
                "entities": _entities(context),
                "relations": _relations(context),
                "themes": _themes(context),
                "sources": _sources(context.sources),
                "question": question.text,
            },
        )


def _latest(history: Sequence[Turn], room: int, model: ChatModel) -> tuple[Turn, ...]:
    kept: list[Turn] = []
    for turn in reversed(history):
        room -= model.tokenizer.count(turn.content) + 4
        if room < 0:
            break
        kept.append(turn)
    return tuple(reversed(kept))


def _entities(context: Context) -> str:
    lines = [
        f"- {_line(found.entity.name)} ({_line(found.entity.kind)}): {_line(found.text)}"
        for found in context.entities
    ]
    return f"## Entities\n{fence(chr(10).join(lines))}" if lines else ""


def _relations(context: Context) -> str:
    lines = [
        f"- {_line(found.relation.source_name)} -- {_line(found.relation.target_name)}"
        f" ({_line(', '.join(found.relation.keywords))}): {_line(found.text)}"
        for found in context.relations
    ]
    return f"## Relations\n{fence(chr(10).join(lines))}" if lines else ""


def _themes(context: Context) -> str:
    lines = [f"- {_line(theme.title)}: {_line(theme.text)}" for theme in context.themes]
    return f"## Themes\n{fence(chr(10).join(lines))}" if lines else ""


def _sources(sources: Sequence[Source]) -> str:
    parts = []
    for source in sources:
        place = [f"Document: {_line(source.document_name)}"]
        place += [f"Date: {_line(source.date)}"] if source.date else []
        place += [f"Page: {source.chunk.page}"] if source.chunk.page else []
        headings = " > ".join(map(_line, source.chunk.headings))
        place += [f"Section: {headings}"] if headings else []
        head = "; ".join(place)
        parts.append(
            f"### Source [{source.number}]\n{fence(head + chr(10) * 2 + source.chunk.text)}"
        )
    return "## Sources\n" + "\n\n".join(parts) if parts else ""


def _line(text: str) -> str:
    return " ".join(text.split())
